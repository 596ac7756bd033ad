#include "autograd/convolution.h"

#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan {

namespace {

constexpr int64_t kMostPadding = int64_t{1} << 30;  // far below where sizes would overflow

/// Checks images and window, and returns the output's height and width.
std::pair<int64_t, int64_t> output_size(const char* operation, const Tensor& x,
                                        const Window2d& window) {
  if (!is_floating(x.dtype())) wrong_dtype(operation, "float32 or float64", x.dtype());
  if (x.rank() != 4) {
    raise<ShapeError>("[{}] takes images [n, channels, height, width], got {}", operation,
                      x.shape());
  }
  for (int axis : {0, 1}) {
    if (window.kernel[axis] < 1 || window.stride[axis] < 1 || window.padding[axis] < 0 ||
        window.padding[axis] > kMostPadding) {
      raise<ValueError>(
          "[{}] kernel and stride must be at least 1 and padding in [0, {}], got {}, {}, {}",
          operation, kMostPadding, window.kernel[axis], window.stride[axis], window.padding[axis]);
    }
    const int64_t size = x.shape()[2 + axis], padded = size + 2 * window.padding[axis];
    if (size < 1 || padded < window.kernel[axis]) {
      raise<ShapeError>("[{}] a window of {} does not fit into {} with padding {}", operation,
                        window.kernel[axis], x.shape(), window.padding[axis]);
    }
  }
  return {window.output_size(0, x.shape()[2]), window.output_size(1, x.shape()[3])};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window) {
  const auto [height, width] = output_size("conv2d", x, window);
  const int64_t outs = weight.rank() > 0 ? weight.shape()[0] : 0;
  if (weight.shape() != Shape{outs, x.shape()[1], window.kernel[0], window.kernel[1]}) {
    raise<ShapeError>("[conv2d] weight must be [out, {}, {}, {}] for input {}, got {}",
                      x.shape()[1], window.kernel[0], window.kernel[1], x.shape(), weight.shape());
  }
  if (bias && bias->shape() != Shape{outs}) {
    raise<ShapeError>("[conv2d] bias must be [{}] for weight {}, got {}", outs, weight.shape(),
                      bias->shape());
  }
  for (const Tensor* t : {&weight, bias}) {
    if (t && t->dtype() != x.dtype()) {
      raise<DtypeError>("[conv2d] dtypes must be equal, got {} and {}", x.dtype(), t->dtype());
    }
    if (t) check_same_device("conv2d", x.device(), t->device());
  }

  const Tensor images = contiguous(detach(x)), kernel = contiguous(detach(weight));
  Tensor out = empty({x.shape()[0], outs, height, width}, {x.dtype(), x.device()});
  std::optional<Tensor> offset;
  if (bias) offset = contiguous(detach(*bias));
  backend(out).conv2d(images, kernel, offset ? &*offset : nullptr, window, out);

  // The bias comes before the weight, as in linear().
  return record(
      "conv2d", out, inputs(x, bias, weight),
      [window, x = Saved(images), weight = Saved(kernel)](const Tensor& grad, Wanted wanted) {
        const Tensor g = contiguous(grad), images = x.get(), kernel = weight.get();
        Tensor x_grad, bias_grad, weight_grad;
        if (wanted[0]) {
          x_grad = empty_like(images);
          backend(g).conv2d_input_grad(g, kernel, window, x_grad);
        }
        if (wanted[1]) bias_grad = sum(g, {0, 2, 3});
        if (wanted[2]) {
          weight_grad = empty_like(kernel);
          backend(g).conv2d_weight_grad(g, images, window, weight_grad);
        }
        return gradients(std::move(x_grad), std::move(bias_grad), std::move(weight_grad));
      });
}

Tensor max_pool2d(const Tensor& x, const Window2d& window) {
  const auto [height, width] = output_size("max_pool2d", x, window);
  for (int axis : {0, 1}) {
    if (2 * window.padding[axis] > window.kernel[axis]) {
      raise<ValueError>("[max_pool2d] padding must be at most half of the kernel, got {} and {}",
                        window.padding[axis], window.kernel[axis]);
    }
  }
  const Shape shape{x.shape()[0], x.shape()[1], height, width};
  Tensor out = empty(shape, {x.dtype(), x.device()});
  Tensor chosen = empty(shape, {Dtype::int32, x.device()});
  backend(out).max_pool2d(contiguous(detach(x)), window, out, chosen);
  return record("max_pool2d", out, inputs(x), [shape = x.shape(), chosen](const Tensor& grad) {
    Tensor x_grad = empty(shape, {grad.dtype(), grad.device()});
    backend(x_grad).max_pool2d_grad(contiguous(grad), chosen, x_grad);
    return gradients(std::move(x_grad));
  });
}

}  // namespace capstan
