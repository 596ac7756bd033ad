// Defines what operands must have in common, how element-wise operations bring theirs together and
// call the kernels, off the tape, how 16 bits are computed with, and what reductions do with their
// axes. For the .cc files of this folder.
#pragma once

#include "core/backend.h"

namespace capstan {

/// Throws DtypeError or DeviceError unless two operands that are not promoted agree in both.
void check_alike(const char* operation, const Tensor& a, const Tensor& b);

/// The kernel on operands of any shapes that broadcast, in `dtype`, or else in the promoted one.
Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b, Dtype dtype);
Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b);
Tensor compare(const char* operation, Compare op, const Tensor& a, const Tensor& b);
Tensor unary(Unary op, const Tensor& x);
/// Throws DtypeError unless x is floating point.
Tensor floating_unary(const char* operation, Unary op, const Tensor& x);

/// `x` with another dtype and a shape that it broadcasts to; strides may be 0.
Tensor as_operand(const Tensor& x, Dtype dtype, const Shape& shape);

/// `x`, on the tape, in the dtype in which kernels compute. An operation made of several computes
/// in it and rounds once, in the end: sums and squares soon leave the range of float16.
Tensor in_compute_dtype(const Tensor& x);

/// The elements of a constant in the dtype and on the device of `options`, off the tape.
Tensor converted(const Tensor& constant, TensorOptions options);

/// `shape` without `axes` (none named: all of them), or with size 1 there if `keepdim`.
Shape reduced_shape(const char* operation, const Shape& shape, const Dims& axes, bool keepdim);

/// What an operand was before it was broadcast and promoted: the way back for its gradient.
class Origin {
 public:
  explicit Origin(const Tensor& operand) : shape_(operand.shape()), dtype_(operand.dtype()) {}
  Tensor back(const Tensor& grad) const;

 private:
  Shape shape_;
  Dtype dtype_;
};

}  // namespace capstan
