#include "autograd/convolution.h"

#include "autograd/arithmetic.h"
#include "autograd/autocast.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "autograd/windows.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// Checks groups, dtypes, devices and the bias of a convolution from `ins` to `outs` channels.
void check(const char* operation, const Tensor& x, const Tensor& weight, const Tensor* bias,
           int64_t ins, int64_t outs, int64_t groups) {
  if (groups < 1 || ins % groups != 0 || outs % groups != 0) {
    raise<ValueError>("[{}] {} channels and {} outputs cannot be cut into {} equal groups",
                      operation, ins, outs, groups);
  }
  if (bias && bias->shape() != Shape{outs}) {
    raise<ShapeError>("[{}] bias must be [{}] for weight {}, got {}", operation, outs,
                      weight.shape(), bias->shape());
  }
  for (const Tensor* t : {&weight, bias}) {
    if (t) check_alike(operation, x, *t);
  }
}

// The sum of grad * convolution(x, weight) is linear in each of the three. Its gradients by them
// are the three kernels, so the gradients of each kernel are the other two, and it goes on like
// that.

Tensor input_grad(const char* operation, const Tensor& grad, const Tensor& weight,
                  const Window2d& window, Shape shape);
Tensor weight_grad(const char* operation, const Tensor& grad, const Tensor& x,
                   const Window2d& window, Shape shape);

/// x [n, c, h, w] with weight [o, c / groups, kh, kw], without the checks.
Tensor convolution(const char* operation, const Tensor& x, const Tensor& weight, const Tensor* bias,
                   const Window2d& window) {
  const Shape shape{x.shape()[0], weight.shape()[0], window.output_size(0, x.shape()[2]),
                    window.output_size(1, x.shape()[3])};
  const Tensor out = empty(shape, {x.dtype(), x.device()});
  std::optional<Tensor> offset;
  if (bias) offset = contiguous(detach(*bias));
  backend(out).conv2d(contiguous(detach(x)), contiguous(detach(weight)),
                      offset ? &*offset : nullptr, window, out);
  // The bias comes before the weight, as in linear().
  return record(
      operation, out, inputs(x, bias, weight),
      [operation, window, x = Saved(x), weight = Saved(weight)](const Tensor& grad, Wanted wanted) {
        const Tensor a = x.get(), b = weight.get();
        return gradients(wanted[0] ? input_grad(operation, grad, b, window, a.shape()) : Tensor(),
                         wanted[1] ? sum(grad, {0, 2, 3}) : Tensor(),
                         wanted[2] ? weight_grad(operation, grad, a, window, b.shape()) : Tensor());
      });
}

/// The gradient of images of `shape`.
Tensor input_grad(const char* operation, const Tensor& grad, const Tensor& weight,
                  const Window2d& window, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).conv2d_input_grad(contiguous(detach(grad)), contiguous(detach(weight)), window, out);
  return record(
      operation, out, inputs(grad, weight),
      [operation, window, grad = Saved(grad), weight = Saved(weight)](const Tensor& g,
                                                                      Wanted wanted) {  // as images
        const Tensor a = grad.get(), b = weight.get();
        return gradients(wanted[0] ? convolution(operation, g, b, nullptr, window) : Tensor(),
                         wanted[1] ? weight_grad(operation, a, g, window, b.shape()) : Tensor());
      });
}

/// The gradient of a weight of `shape`.
Tensor weight_grad(const char* operation, const Tensor& grad, const Tensor& x,
                   const Window2d& window, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).conv2d_weight_grad(contiguous(detach(grad)), contiguous(detach(x)), window, out);
  return record(
      operation, out, inputs(grad, x),
      [operation, window, grad = Saved(grad), x = Saved(x)](const Tensor& g,
                                                            Wanted wanted) {  // as the weight
        const Tensor a = grad.get(), b = x.get();
        return gradients(wanted[0] ? convolution(operation, b, g, nullptr, window) : Tensor(),
                         wanted[1] ? input_grad(operation, a, g, window, b.shape()) : Tensor());
      });
}

Tensor convolve(const char* operation, const Tensor& x, const Tensor& weight, const Tensor* bias,
                const Window2d& window, int64_t groups) {
  if (const Autocasting on; on)
    return convolve(operation, on.narrow(x), on.narrow(weight), on.narrow(bias).get(), window,
                    groups);
  output_size(operation, x, window);  // checks both
  const int64_t ins = x.shape()[1], outs = weight.rank() > 0 ? weight.shape()[0] : 0;
  const int64_t part = groups < 1 ? ins : ins / groups;
  if (weight.shape() != Shape{outs, part, window.kernel[0], window.kernel[1]}) {
    raise<ShapeError>("[{}] weight must be [out, {}, {}, {}] for input {}, got {}", operation, part,
                      window.kernel[0], window.kernel[1], x.shape(), weight.shape());
  }
  check(operation, x, weight, bias, ins, outs, groups);
  return convolution(operation, x, weight, bias, window);
}

/// The result for which convolution() would have given x.
Tensor convolve_back(const char* operation, const Tensor& x, const Tensor& weight,
                     const Tensor* bias, const Window2d& window, int64_t groups,
                     const int64_t (&output_padding)[2]) {
  if (const Autocasting on; on)
    return convolve_back(operation, on.narrow(x), on.narrow(weight), on.narrow(bias).get(), window,
                         groups, output_padding);
  output_size(operation, x, {});  // checks that these are images with pixels
  check_window(operation, window);
  const int64_t ins = x.shape()[1];
  const int64_t outs = weight.rank() > 1 ? weight.shape()[1] * std::max<int64_t>(groups, 1) : 0;
  if (weight.rank() != 4 ||
      weight.shape() != Shape{ins, weight.shape()[1], window.kernel[0], window.kernel[1]}) {
    raise<ShapeError>("[{}] weight must be [{}, out, {}, {}] for input {}, got {}", operation, ins,
                      window.kernel[0], window.kernel[1], x.shape(), weight.shape());
  }
  check(operation, x, weight, bias, ins, outs, groups);
  Shape shape{x.shape()[0], outs};
  for (int axis : {0, 1}) {
    const int64_t stride = window.stride[axis], more = output_padding[axis];
    check_output_padding(operation, more, stride);
    const int64_t size =
        (x.shape()[2 + axis] - 1) * stride + window.extent(axis) + more - 2 * window.padding[axis];
    if (size < 1) {
      raise<ShapeError>("[{}] a padding of {} leaves nothing of the result for input {}", operation,
                        window.padding[axis], x.shape());
    }
    shape.push_back(size);
  }
  const Tensor y = input_grad(operation, x, weight, window, shape);
  return bias ? y + reshape(*bias, {outs, 1, 1}) : y;
}

/// A line is an image of height 1.
Window2d line_window(int64_t kernel, const ConvolutionOptions& options) {
  return {.kernel = {1, kernel},
          .stride = {1, options.stride},
          .padding = {0, options.padding},
          .dilation = {1, options.dilation}};
}

void check_ranks(const char* operation, const Tensor& x, const Tensor& weight, int rank) {
  if (x.rank() == rank && weight.rank() == rank) return;
  raise<ShapeError>("[{}] takes {}, got {} and {}", operation,
                    rank == 3 ? "[n, channels, length] and a weight of 3 axes"
                              : "[n, channels, depth, height, width] and a weight of 5 axes",
                    x.shape(), weight.shape());
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window,
              int64_t groups) {
  return convolve("conv2d", x, weight, bias, window, groups);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                        const Window2d& window, int64_t groups, int64_t output_padding) {
  return convolve_back("conv_transpose2d", x, weight, bias, window, groups,
                       {output_padding, output_padding});
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor* bias,
              const ConvolutionOptions& options) {
  check_ranks("conv1d", x, weight, 3);
  return squeeze(convolve("conv1d", unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                          line_window(weight.size(2), options), options.groups),
                 2);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                        const ConvolutionOptions& options, int64_t output_padding) {
  check_ranks("conv_transpose1d", x, weight, 3);
  return squeeze(
      convolve_back("conv_transpose1d", unsqueeze(x, 2), unsqueeze(weight, 2), bias,
                    line_window(weight.size(2), options), options.groups, {0, output_padding}),
      2);
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor* bias,
              const ConvolutionOptions& options) {
  check_ranks("conv3d", x, weight, 5);
  const auto [stride, padding, dilation, groups] = options;
  const auto window = [&](int64_t height, int64_t width) {
    return Window2d{.kernel = {height, width},
                    .stride = {stride, stride},
                    .padding = {padding, padding},
                    .dilation = {dilation, dilation}};
  };
  // The depths of the result, by the checks and the arithmetic of an image [1, 1, depth, height].
  const Tensor side = empty({1, 1, x.size(2), x.size(3)}, {x.dtype(), Device::meta()});
  const int64_t depths = output_size("conv3d", side, window(weight.size(2), weight.size(3))).first;

  const Dims around{0, 0, padding, 0, 0};
  const Tensor padded = padding > 0 ? pad(x, around, around) : x;
  Tensor total;  // [n * depths, out, h', w']
  for (int64_t tap = 0; tap < weight.size(2); ++tap) {
    const int64_t first = tap * dilation;
    const Tensor seen = slice(padded, 2, first, first + (depths - 1) * stride + 1, stride);
    const Tensor images =
        reshape(transpose(seen, 1, 2), {x.size(0) * depths, x.size(1), x.size(3), x.size(4)});
    const Tensor part = convolve("conv3d", images, select(weight, 2, tap), tap ? nullptr : bias,
                                 window(weight.size(3), weight.size(4)), groups);
    total = tap ? total + part : part;
  }
  return transpose(reshape(total, {x.size(0), depths, total.size(1), total.size(2), total.size(3)}),
                   1, 2);
}

}  // namespace capstan
