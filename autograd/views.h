// Defines differentiable operations that change how elements are laid out, not their values.
//
// Except clone() and, where strides cannot express it, reshape() and contiguous(), the result
// shares the elements of its input: writing to one changes the other, and the tape notices.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// The same elements, in row-major order, under another shape; one size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Merges axes from `first` to `last` (inclusive) into one.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b);
/// Axis i of the result is axis order[i] of `x`.
Tensor permute(const Tensor& x, const Dims& order);
/// Indices start, start + step, ... below stop along one axis; negative bounds count from the back.
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
/// One index along an axis, which disappears.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Repeats axes of size 1, and new axes at the left, up to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor squeeze(const Tensor& x, int64_t axis);
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// `x` itself if its elements lie densely in row-major order, else a dense copy.
Tensor contiguous(const Tensor& x);
/// A dense copy.
Tensor clone(const Tensor& x);

}  // namespace capstan
