// Defines differentiable element-wise functions of one tensor.
//
// They take floating point, or else throw DtypeError; those of the first group take every dtype.
#pragma once

#include "core/tensor.h"

namespace capstan {

Tensor absolute(const Tensor& x);
Tensor square(const Tensor& x);
/// x cut off below `low` and above `high`. The gradient passes where low <= x <= high. Throws
/// ValueError if low is above high.
Tensor clamp(const Tensor& x, double low, double high);

// Steps: their gradient is 0. round takes halves to the even number; sign of 0 and NaN is 0.
Tensor sign(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);

// Questions, answered in bool.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

Tensor reciprocal(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);

Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);

Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);

Tensor erf(const Tensor& x);
/// 1 / (1 + exp(-x))
Tensor sigmoid(const Tensor& x);

}  // namespace capstan
