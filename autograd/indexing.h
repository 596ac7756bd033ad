// Defines differentiable gathering by index.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Rows x[indices[i]] of x [n, ...]: [indices.size, ...]. `indices` is int64 [m] with values in [0,
/// n); a row taken twice receives both gradients. Throws DtypeError, ShapeError, DeviceError,
/// ValueError.
Tensor take_rows(const Tensor& x, const Tensor& indices);

}  // namespace capstan
