// Defines differentiable matrix products.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// a [m, k] times b [k, n] gives [m, n]. Throws ShapeError, DtypeError (float32 or float64, equal).
Tensor matmul(const Tensor& a, const Tensor& b);

/// x [..., in] times weight [out, in] transposed, plus bias [out] if given: [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr);

}  // namespace capstan
