// Defines differentiable matrix products.
#pragma once

#include "core/tensor.h"

namespace capstan {

// Throws ShapeError, DeviceError and DtypeError (floating point, all equal).

/// a [..., m, k] times b [..., k, n] gives [..., m, n]; the axes in front are broadcast. A vector a
/// [k] or b [k] is a row or a column, and its axis of size 1 disappears from the result.
Tensor matmul(const Tensor& a, const Tensor& b);
/// a [batch, m, k] times b [batch, k, n], product by product: [batch, m, n].
Tensor bmm(const Tensor& a, const Tensor& b);
/// beta x + alpha a b, for a [m, k], b [k, n] and x that broadcasts to [m, n].
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// The sum of products of two vectors [n]: a scalar.
Tensor dot(const Tensor& a, const Tensor& b);
/// a [m] and b [n]: [m, n] with a[i] b[j].
Tensor outer(const Tensor& a, const Tensor& b);
/// Sums products over the axes axes_a of a and axes_b of b, pair by pair; the other axes of a come
/// first in the result, then those of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& axes_a, const Dims& axes_b);

/// x [..., in] times weight [out, in] transposed, plus bias [out] if given: [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr);

}  // namespace capstan
