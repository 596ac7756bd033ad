// Defines differentiable choices of elements by index or by mask, and the reverse.
//
// Indices are int64, on the same device and in range: there are no negative ones. Throws
// DtypeError, ShapeError, DeviceError, and ValueError naming the first index out of range.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Rows x[indices[...]] of x [n, ...]: shape [indices..., ...]. A row taken twice receives both
/// gradients. This is the look-up of an embedding.
Tensor take_rows(const Tensor& x, const Tensor& indices);
/// The same along any axis, for indices [m].
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& indices);
/// x with source[..., j, ...] added at index indices[j] of the axis. `source` has x's shape, but
/// with size m along the axis, and x's dtype.
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source);

/// y[i][j][k] = x[i][indices[i][j][k]][k] for axis 1. `indices` has x's rank, any size along the
/// axis and at most x's along the others.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& indices);
/// x with y[i][indices[i][j][k]][k] = source[i][j][k] for axis 1, where later j win; `source` has
/// the shape of `indices` and x's dtype. scatter_add adds instead.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source);
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source);

/// x with `value` where `mask` (bool, broadcast to x) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// The elements [m] of x where `mask` (bool, broadcast to x) is true, in row-major order. Not on
/// meta: the shape depends on values.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// Indices [m, rank] of the elements that are not 0, in row-major order. Not on meta.
Tensor nonzero(const Tensor& x);

}  // namespace capstan
