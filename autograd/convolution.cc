#include "autograd/convolution.h"

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
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

// The sum of grad * convolution(x, weight) is linear in each of the three. Its gradients by them
// are the three kernels, so the gradients of each kernel are the other two, and it goes on like
// that.

Tensor input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window, Shape shape);
Tensor weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window, Shape shape);

/// x [n, c, h, w] with weight [o, c, kh, kw], without the checks.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor* bias,
                   const Window2d& window) {
  const Shape shape{x.shape()[0], weight.shape()[0], window.output_size(0, x.shape()[2]),
                    window.output_size(1, x.shape()[3])};
  const Tensor out = empty(shape, {x.dtype(), x.device()});
  std::optional<Tensor> offset;
  if (bias) offset = contiguous(detach(*bias));
  backend(out).conv2d(contiguous(detach(x)), contiguous(detach(weight)),
                      offset ? &*offset : nullptr, window, out);
  // The bias comes before the weight, as in linear().
  return record("conv2d", out, inputs(x, bias, weight),
                [window, x = Saved(x), weight = Saved(weight)](const Tensor& grad, Wanted wanted) {
                  const Tensor a = x.get(), b = weight.get(), g = contiguous(grad);
                  return gradients(wanted[0] ? input_grad(g, b, window, a.shape()) : Tensor(),
                                   wanted[1] ? sum(g, {0, 2, 3}) : Tensor(),
                                   wanted[2] ? weight_grad(g, a, window, b.shape()) : Tensor());
                });
}

/// The gradient of images of `shape`.
Tensor input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).conv2d_input_grad(contiguous(detach(grad)), contiguous(detach(weight)), window, out);
  return record("conv2d", out, inputs(grad, weight),
                [window, grad = Saved(grad), weight = Saved(weight)](const Tensor& g,
                                                                     Wanted wanted) {  // as images
                  const Tensor a = grad.get(), b = weight.get();
                  return gradients(wanted[0] ? convolution(g, b, nullptr, window) : Tensor(),
                                   wanted[1] ? weight_grad(a, g, window, b.shape()) : Tensor());
                });
}

/// The gradient of a weight of `shape`.
Tensor weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).conv2d_weight_grad(contiguous(detach(grad)), contiguous(detach(x)), window, out);
  return record("conv2d", out, inputs(grad, x),
                [window, grad = Saved(grad), x = Saved(x)](const Tensor& g,
                                                           Wanted wanted) {  // as the weight
                  const Tensor a = grad.get(), b = x.get();
                  return gradients(wanted[0] ? convolution(b, g, nullptr, window) : Tensor(),
                                   wanted[1] ? input_grad(a, g, window, b.shape()) : Tensor());
                });
}

/// grad [n, c, oh, ow] at the positions in the planes of `shape` that were chosen.
Tensor pool_grad(const Tensor& grad, const Tensor& chosen, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).max_pool2d_grad(contiguous(detach(grad)), chosen, out);
  return record("max_pool2d", out, inputs(grad),
                [chosen = Saved(chosen)](const Tensor& g) {  // [n, c, h, w]
                  const Tensor at = chosen.get();
                  const Shape planes{g.shape()[0], g.shape()[1], g.shape()[2] * g.shape()[3]};
                  const Shape places{at.shape()[0], at.shape()[1], at.shape()[2] * at.shape()[3]};
                  const Tensor index = reshape(cast(at, Dtype::int64), places);
                  return gradients(reshape(gather(reshape(g, planes), 2, index), at.shape()));
                });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window) {
  output_size("conv2d", x, window);  // checks both
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

  return convolution(x, weight, bias, window);
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
  return record("max_pool2d", out, inputs(x),
                [shape = x.shape(), chosen = Saved(chosen)](const Tensor& grad) {
                  return gradients(pool_grad(grad, chosen.get(), shape));
                });
}

}  // namespace capstan
