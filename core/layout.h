// Defines Layout: how a tensor's indices map to elements of its storage, apart from the storage.
//
// Element (i0, i1, ...) lies at offset + i0*strides[0] + i1*strides[1] + ... . Every view operation
// is a pure function from one layout to another; no bytes are touched here.
#pragma once

#include <optional>

#include "core/shape.h"

namespace capstan {

struct Layout {
  Shape shape;
  Strides strides;
  int64_t offset = 0;  // in elements

  /// Dense row-major layout of `shape`.
  static Layout dense(const Shape& shape) { return {shape, dense_strides(shape), 0}; }

  /// True if the elements lie densely in row-major order (axes of size 1 may have any stride).
  bool is_contiguous() const;

  /// Axes in a new order: axis i of the result is axis order[i] of this. Throws ShapeError.
  Layout permuted(const Dims& order) const;
  Layout transposed(int64_t axis_a, int64_t axis_b) const;
  /// Indices start, start+step, ... below stop along one axis. `start` and `stop` count from the
  /// back when negative and are clamped to the axis; step must be positive.
  Layout sliced(int64_t axis, int64_t start, int64_t stop, int64_t step = 1) const;
  /// Walks one axis backwards.
  Layout flipped(int64_t axis) const;
  /// The elements whose indices along two axes are equal; both axes go, and one is added at the
  /// end.
  Layout diagonal(int64_t axis_a, int64_t axis_b) const;
  /// Removes an axis by fixing its index.
  Layout selected(int64_t axis, int64_t index) const;
  /// Repeats axes of size 1 (and new axes at the left) with stride 0. Throws ShapeError.
  Layout expanded(const Shape& shape) const;
  /// Adds or removes an axis of size 1.
  Layout unsqueezed(int64_t axis) const;
  Layout squeezed(int64_t axis) const;
  /// The same elements under another shape, if strides can express it; none otherwise (the caller
  /// then copies). `shape` must have the same number of elements.
  std::optional<Layout> viewed(const Shape& shape) const;
};

/// Replaces one -1 in `shape` by what `count` elements leave for it. Throws ShapeError if the sizes
/// cannot hold `count` elements.
Shape resolve_shape(const char* operation, const Shape& shape, int64_t count);

}  // namespace capstan
