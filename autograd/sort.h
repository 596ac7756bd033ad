// Defines sorting along one axis. NaN counts as larger than every number, and equals keep their
// order. Gradients flow through the values.
#pragma once

#include <optional>

#include "core/tensor.h"

namespace capstan {

/// Values, and where along the axis each came from (int64).
struct Sorted {
  Tensor values, indices;
};

/// Throws ShapeError for an axis out of range.
Sorted sort(const Tensor& x, int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The `count` largest (or smallest) along an axis, in order. Throws ValueError unless the axis has
/// so many.
Sorted topk(const Tensor& x, int64_t count, int64_t axis = -1, bool largest = true);

/// The different elements of a tensor in ascending order [m]; for each element the position of its
/// value (int64, x's shape); and how often each value occurs (int64 [m]). Along an axis it is whole
/// slices that are compared, by their first elements that differ: `values` has x's shape but for
/// the axis, and `inverse` is [size of the axis].
struct Unique {
  Tensor values, inverse, counts;
};

/// Without gradients. Every NaN is a value of its own. Not on meta: the shape depends on values.
/// Throws ShapeError for an axis out of range.
Unique unique(const Tensor& x, std::optional<int64_t> axis = {});

}  // namespace capstan
