#include "autograd/reduce.h"

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

Dtype wide(Dtype dtype) { return is_floating(dtype) ? dtype : Dtype::int64; }

/// Runs the kernel and gives the result its shape, off the tape.
Tensor reduce(const char* operation, Reduction op, const Tensor& x, Dtype dtype, const Dims& axes,
              bool keepdim) {
  const Tensor out = empty(reduced_shape(operation, x.shape(), axes, true), {dtype, x.device()});
  backend(out).reduce(op, x, out);
  if (keepdim) return out;
  return reshaped(out, reduced_shape(operation, x.shape(), axes, false));
}

/// max and min.
Tensor extreme(const char* operation, Reduction op, const Tensor& x, const Dims& axes,
               bool keepdim) {
  const Shape kept = reduced_shape(operation, x.shape(), axes, true);
  if (x.numel() == 0 && numel(kept) != 0) {
    raise<ShapeError>("[{}] {} has no elements along the reduced axes", operation, x.shape());
  }
  const Tensor out = reduce(operation, op, x, x.dtype(), axes, keepdim);
  return record(operation, out, inputs(x),
                [x = Saved(x), out = Saved::output(out), axes, kept](const Tensor& grad) {
                  const Tensor hit = cast(equal(x.get(), reshape(out.get(), kept)), grad.dtype());
                  return gradients(hit * (reshape(grad, kept) / sum(hit, axes, true)));
                });
}

/// argmax and argmin.
Tensor position(const char* operation, Reduction op, const Tensor& x, int64_t axis, bool keepdim) {
  const int a = normalize_axis(operation, axis, x.rank());
  if (x.shape()[a] == 0) {
    raise<ShapeError>("[{}] axis {} of {} is empty", operation, axis, x.shape());
  }
  const Tensor out =
      empty(reduced_shape(operation, x.shape(), {a}, true), {Dtype::int64, x.device()});
  backend(out).extreme_position(op, x, a, out);
  return keepdim ? out : squeeze(out, a);
}

/// For each element, the product of the others along the axes, by multiplying them all, n^2 factors
/// for n: slow, but it can be differentiated at zeros too.
Tensor multiplied_others(const Tensor& x, const Dims& axes) {
  const AxisSet reduced("prod", axes, x.rank());
  Dims order;  // the axes that stay, then the others
  Shape lines, permuted;
  int64_t length = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!axes.empty() && !reduced[axis]) order.push_back(axis);
  }
  const int stays = order.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axes.empty() || reduced[axis]) order.push_back(axis), length *= x.shape()[axis];
  }
  Dims back = order;
  for (int i = 0; i < order.rank(); ++i) {
    back[order[i]] = i;
    permuted.push_back(x.shape()[order[i]]);
    if (i < stays) lines.push_back(x.shape()[order[i]]);
  }
  const int64_t count = numel(lines);
  const Tensor rows = reshape(permute(x, order), {count, 1, length});
  const Tensor own = cast(eye(length, {x.dtype(), x.device()}), Dtype::boolean);
  const Tensor others = prod(where(own, scalar_beside(x, 1), rows), {2});  // [count, length]
  return permute(reshape(others, permuted), back);
}

/// For each element, the product of the others along the axes, zeros or not: where exactly one is
/// zero, only its own is not.
Tensor product_of_others(const Tensor& x, const Dims& axes) {
  const Tensor zero = scalar_beside(x, 0), one = scalar_beside(x, 1);
  const Tensor is_zero = equal(x, zero);
  // A quotient knows nothing of how the product changes when two elements do.
  const bool can_look = x.device().kind != Device::Kind::meta;
  if (grad_enabled() && can_look && any(is_zero).item<bool>()) return multiplied_others(x, axes);
  const Tensor zeros = cast(sum(is_zero, axes, true), x.dtype());
  const Tensor others = prod(where(is_zero, one, x), axes, true);
  return where(is_zero, where(equal(zeros, one), others, zero),
               where(equal(zeros, zero), others / x, zero));
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  if (const Autocasting on; on) return sum(on.wide(x), axes, keepdim);
  return record("sum", reduce("sum", Reduction::sum, x, wide(x.dtype()), axes, keepdim), inputs(x),
                [kept = reduced_shape("sum", x.shape(), axes, true), shape = x.shape()](
                    const Tensor& grad) { return gradients(expand(reshape(grad, kept), shape)); });
}

Tensor prod(const Tensor& x, const Dims& axes, bool keepdim) {
  if (const Autocasting on; on) return prod(on.wide(x), axes, keepdim);
  const Tensor out = reduce("prod", Reduction::product, x, wide(x.dtype()), axes, keepdim);
  return record("prod", out, inputs(x), [x = Saved(x), axes](const Tensor& grad) {
    const Tensor value = x.get();
    const Shape kept = reduced_shape("prod", value.shape(), axes, true);
    return gradients(reshape(grad, kept) * product_of_others(value, axes));
  });
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  if (const Autocasting on; on) return mean(on.wide(x), axes, keepdim);
  check_floating("mean", x.dtype());
  if (is_half(x.dtype())) return cast(mean(in_compute_dtype(x), axes, keepdim), x.dtype());
  const int64_t results = numel(reduced_shape("mean", x.shape(), axes, true));
  const double count = results == 0 ? 0 : static_cast<double>(x.numel()) / results;
  return sum(x, axes, keepdim) / count;
}

Tensor max(const Tensor& x, const Dims& axes, bool keepdim) {
  return extreme("max", Reduction::max, x, axes, keepdim);
}

Tensor min(const Tensor& x, const Dims& axes, bool keepdim) {
  return extreme("min", Reduction::min, x, axes, keepdim);
}

// Of bools, the largest says whether any is true, the smallest whether all are.
Tensor any(const Tensor& x, const Dims& axes, bool keepdim) {
  return reduce("any", Reduction::max, cast(x, Dtype::boolean), Dtype::boolean, axes, keepdim);
}

Tensor all(const Tensor& x, const Dims& axes, bool keepdim) {
  return reduce("all", Reduction::min, cast(x, Dtype::boolean), Dtype::boolean, axes, keepdim);
}

Tensor argmax(const Tensor& x, int64_t axis, bool keepdim) {
  return position("argmax", Reduction::max, x, axis, keepdim);
}

Tensor argmin(const Tensor& x, int64_t axis, bool keepdim) {
  return position("argmin", Reduction::min, x, axis, keepdim);
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  if (const Autocasting on; on) return cumsum(on.wide(x), axis);
  const int a = normalize_axis("cumsum", axis, x.rank());
  const Tensor out = empty(x.shape(), {wide(x.dtype()), x.device()});
  backend(out).cumulative_sum(x, a, out);
  return record("cumsum", out, inputs(x), [a](const Tensor& grad) {  // sums from the other end
    return gradients(flip(cumsum(flip(grad, {a}), a), {a}));
  });
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
