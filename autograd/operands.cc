#include "autograd/operands.h"

#include "autograd/arithmetic.h"
#include "autograd/reduce.h"
#include "core/raise.h"

namespace capstan {

void check_alike(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    raise<DtypeError>("[{}] dtypes must be equal, got {} and {}", operation, a.dtype(), b.dtype());
  }
  check_same_device(operation, a.device(), b.device());
}

Tensor as_operand(const Tensor& x, Dtype dtype, const Shape& shape) {
  const Tensor typed = x.dtype() == dtype ? x : cast(x, dtype);
  return typed.shape() == shape ? typed : view_of(typed, typed.layout().expanded(shape));
}

Tensor in_compute_dtype(const Tensor& x) { return cast(x, compute_dtype(x.dtype())); }

Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b, Dtype dtype) {
  check_same_device(operation, a.device(), b.device());
  if (a.shape() == b.shape() && a.dtype() == dtype && b.dtype() == dtype) {
    Tensor out = empty(a.shape(), {dtype, a.device()});
    backend(out).binary(op, a, b, out);
    return out;
  }
  const Shape shape = broadcast(operation, a.shape(), b.shape());
  Tensor out = empty(shape, {dtype, a.device()});
  backend(out).binary(op, as_operand(a, dtype, shape), as_operand(b, dtype, shape), out);
  return out;
}

Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b) {
  return binary(operation, op, a, b,
                a.dtype() == b.dtype() ? a.dtype() : promote(a.dtype(), b.dtype()));
}

Tensor compare(const char* operation, Compare op, const Tensor& a, const Tensor& b) {
  check_same_device(operation, a.device(), b.device());
  const Shape shape = broadcast(operation, a.shape(), b.shape());
  const Dtype dtype = promote(a.dtype(), b.dtype());
  Tensor out = empty(shape, {Dtype::boolean, a.device()});
  backend(out).compare(op, as_operand(a, dtype, shape), as_operand(b, dtype, shape), out);
  return out;
}

Tensor unary(Unary op, const Tensor& x) {
  Tensor out = empty_like(x);
  backend(out).unary(op, x, out);
  return out;
}

Tensor floating_unary(const char* operation, Unary op, const Tensor& x) {
  check_floating(operation, x.dtype());
  return unary(op, x);
}

Tensor converted(const Tensor& constant, TensorOptions options) {
  const Tensor out = empty(constant.shape(), options);
  copy_elements(constant, out);
  return out;
}

Shape reduced_shape(const char* operation, const Shape& shape, const Dims& axes, bool keepdim) {
  const AxisSet reduced(operation, axes, shape.rank());
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!axes.empty() && !reduced[axis]) {
      out.push_back(shape[axis]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

Tensor Origin::back(const Tensor& grad) const {
  if (grad.shape() == shape_ && grad.dtype() == dtype_) return grad;
  return cast(sum_to(grad, shape_), dtype_);
}

}  // namespace capstan
