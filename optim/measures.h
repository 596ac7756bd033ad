// Defines what optimizers, clipping and scaling ask about a whole tensor.
#pragma once

#include "core/tensor.h"

namespace capstan::optim {

// Of contiguous floating point tensors. They throw DeviceError on meta.

/// The root of the sum of squares, summed in float64.
double two_norm(const Tensor& tensor);

/// True if no element is NaN or infinite.
bool all_finite(const Tensor& tensor);

}  // namespace capstan::optim
