// Defines differentiable operations that change how elements are laid out, not their values.
//
// Except clone() and, where strides cannot express it, reshape() and contiguous(), the result
// shares the elements of its input: writing to one changes the other, and the tape follows
// (in_place.h) or notices.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace capstan {

/// The same elements, in row-major order, under another shape; one size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
/// The same, or ShapeError where strides cannot express it: never a copy.
Tensor view(const Tensor& x, const Shape& shape);
/// Merges axes from `first` to `last` (inclusive) into one.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
/// Exchanges two axes.
Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b);
/// Axis i of the result is axis order[i] of `x`.
Tensor permute(const Tensor& x, const Dims& order);
/// Moves one axis to another place; the others keep their order.
Tensor move_axis(const Tensor& x, int64_t from, int64_t to);
/// The elements in reverse order along each of `axes`.
Tensor flip(const Tensor& x, const Dims& axes);
/// The elements whose indices along two axes are equal, as one axis at the end.
Tensor diagonal(const Tensor& x, int64_t axis_a = -2, int64_t axis_b = -1);
/// Indices start, start + step, ... below stop along one axis; negative bounds count from the back.
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
/// One index along an axis, which disappears.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Consecutive pieces of `size` along an axis; the last may be smaller. Throws ValueError below 1.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
/// Consecutive pieces of the given sizes, which must add up to the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
/// At most `count` equal pieces; the last may be smaller.
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis = 0);
/// Repeats axes of size 1, and new axes at the left, up to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);
/// Removes or adds an axis of size 1.
Tensor squeeze(const Tensor& x, int64_t axis);
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// `x` itself if its elements lie densely in row-major order, else a dense copy.
Tensor contiguous(const Tensor& x);
/// A dense copy.
Tensor clone(const Tensor& x);

}  // namespace capstan
