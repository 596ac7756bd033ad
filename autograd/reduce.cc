#include "autograd/reduce.h"

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// `x`'s shape with size 1 on the reduced axes.
Shape kept_shape(const char* operation, const Tensor& x, const Dims& axes) {
  if (axes.empty()) return Dims::filled(x.rank(), 1);
  const AxisSet reduced(operation, axes, x.rank());
  Shape kept = x.shape();
  for (int a = 0; a < x.rank(); ++a) {
    if (reduced[a]) kept[a] = 1;
  }
  return kept;
}

/// `kept` without the reduced axes.
Shape dropped_shape(const Shape& kept, const Tensor& x, const Dims& axes) {
  if (axes.empty()) return {};
  const AxisSet reduced("reduce", axes, x.rank());
  Shape out;
  for (int a = 0; a < kept.rank(); ++a) {
    if (!reduced[a]) out.push_back(kept[a]);
  }
  return out;
}

/// Runs the kernel and gives the result its shape, off the tape.
Tensor reduce(Reduction op, const Tensor& x, const Shape& kept, const Dims& axes, bool keepdim) {
  const bool widen = op == Reduction::sum && !is_floating(x.dtype());
  Tensor out = empty(kept, {widen ? Dtype::int64 : x.dtype(), x.device()});
  backend(out).reduce(op, x, out);
  return keepdim ? out : view_of(out, Layout::dense(dropped_shape(kept, x, axes)));
}

/// max and min.
Tensor extreme(const char* operation, Reduction op, const Tensor& x, const Dims& axes,
               bool keepdim) {
  const Shape kept = kept_shape(operation, x, axes);
  if (x.numel() == 0 && numel(kept) != 0) {
    raise<ShapeError>("[{}] {} has no elements along the reduced axes", operation, x.shape());
  }
  const Tensor out = reduce(op, x, kept, axes, keepdim);
  return record(operation, out, inputs(x),
                [x = Saved(x), out = Saved::output(out), kept](const Tensor& grad) {
                  const Tensor value = x.get();
                  const Tensor hit = cast(equal(value, reshape(out.get(), kept)), grad.dtype());
                  Tensor count = empty(kept, {grad.dtype(), grad.device()});
                  backend(count).reduce(Reduction::sum, hit, count);
                  return gradients(hit * (reshape(grad, kept) / count));
                });
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  const Shape kept = kept_shape("sum", x, axes);
  return record("sum", reduce(Reduction::sum, x, kept, axes, keepdim), inputs(x),
                [kept, shape = x.shape()](const Tensor& grad) {
                  return gradients(expand(reshape(grad, kept), shape));
                });
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  if (!is_floating(x.dtype())) wrong_dtype("mean", "float32 or float64", x.dtype());
  const int64_t results = numel(kept_shape("mean", x, axes));
  const double count = results == 0 ? 0 : static_cast<double>(x.numel()) / results;
  return sum(x, axes, keepdim) / count;
}

Tensor max(const Tensor& x, const Dims& axes, bool keepdim) {
  return extreme("max", Reduction::max, x, axes, keepdim);
}

Tensor min(const Tensor& x, const Dims& axes, bool keepdim) {
  return extreme("min", Reduction::min, x, axes, keepdim);
}

Tensor argmax(const Tensor& x, int64_t axis) {
  const int a = normalize_axis("argmax", axis, x.rank());
  if (x.shape()[a] == 0) raise<ShapeError>("[argmax] axis {} of {} is empty", axis, x.shape());
  Shape shape = x.shape();
  shape.erase(a);
  Tensor out = empty(shape, {Dtype::int64, x.device()});
  backend(out).argmax(x, a, out);
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (shape.rank() > x.rank() || broadcast("sum_to", x.shape(), shape) != x.shape()) {
    raise<ShapeError>("[sum_to] {} does not broadcast to {}", shape, x.shape());
  }
  const int shift = x.rank() - shape.rank();
  Dims axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < shift || (shape[axis - shift] == 1 && x.shape()[axis] != 1)) axes.push_back(axis);
  }
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}

}  // namespace capstan
