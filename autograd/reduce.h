// Defines differentiable reductions.
//
// `axes` may be in any order and count from the back; an empty list means all axes. Reduced axes
// disappear, or stay with size 1 if `keepdim`. Throws ShapeError for an axis out of range or named
// twice.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Sum and product; integers and bool are combined in int64.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Mean of a floating point tensor; of no elements: NaN.
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// Largest or smallest element; equals share the gradient evenly. Throws ShapeError over no
/// elements.
Tensor max(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// True if any element, or every one, is not 0; without elements, false and true.
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

/// Position (int64) of the largest or smallest element along one axis, the first of equals. Throws
/// ShapeError over no elements.
Tensor argmax(const Tensor& x, int64_t axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t axis, bool keepdim = false);

/// Sums of the elements up to each one along an axis; dtypes as in sum().
Tensor cumsum(const Tensor& x, int64_t axis);

/// Sums `x` over what broadcasting `shape` to its shape repeated: the reverse of expand(). Throws
/// ShapeError if `shape` does not broadcast to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace capstan
