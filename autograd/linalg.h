// Defines decompositions and equations of small matrices, alone or in batches [..., rows, columns].
//
// Floating point only. Throws DtypeError, DeviceError and ShapeError, and ValueError naming the
// first matrix of the batch that has no solution. cholesky, solve and inverse have gradients; the
// other three throw GradientError where one would be recorded: detach() their argument.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Lower triangular L with a = L L^T, for symmetric positive definite a [..., n, n], of which the
/// lower triangle is read.
Tensor cholesky(const Tensor& a);
/// x with a x = b, for a [..., n, n] and b [..., n, m]; the axes in front are broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
/// The inverse of a [..., n, n]. solve(a, b) is better than inverse(a) times b.
Tensor inverse(const Tensor& a);

/// a [..., m, n] = q [..., m, k] r [..., k, n] with k = min(m, n): orthonormal columns, and an
/// upper triangle whose diagonal is not negative.
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a);

/// a [..., m, n] = u [..., m, k] diag(s [..., k]) v^T, v [..., n, k], with s falling.
struct Svd {
  Tensor u, s, v;
};
Svd svd(const Tensor& a);

/// Eigenvalues [..., n], rising, and eigenvectors in the columns of [..., n, n], of symmetric a
/// [..., n, n], of which the lower triangle is read.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(const Tensor& a);

}  // namespace capstan
