// Defines differentiable statistics over axes, which are as in reduce.h. Floating point only, or
// else DtypeError.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Mean square of the distance to the mean, with n - correction instead of n in the division;
/// correction 1 estimates the variance of what n samples came from. NaN where that is 0.
Tensor var(const Tensor& x, const Dims& axes = {}, double correction = 1, bool keepdim = false);
/// Square root of the variance.
Tensor stddev(const Tensor& x, const Dims& axes = {}, double correction = 1, bool keepdim = false);
/// sum(|x|^p)^(1/p) for p above 0; the largest |x| for p infinite. The gradient of the 2-norm is 0
/// where all is 0. Throws ValueError for another p, ShapeError as max() does.
Tensor norm(const Tensor& x, double p = 2, const Dims& axes = {}, bool keepdim = false);
/// log(sum(exp(x))) without overflow; without elements -inf.
Tensor logsumexp(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

}  // namespace capstan
