// Defines what optimizers, clipping and scaling ask about a whole tensor.
#pragma once

#include "core/exact_sum.h"
#include "core/tensor.h"

namespace capstan::optim {

// Of contiguous floating point tensors. They throw DeviceError on meta.

/// The root of the sum of squares, summed in float64.
double two_norm(const Tensor& tensor);

/// Adds the square of each element, rounded to float64, to `sum`: in any order, and in parts on any
/// number of ranks, the same. Throws DeviceError unless the elements are on a CPU.
void add_squares(const Tensor& tensor, ExactSum& sum);

/// True if no element is NaN or infinite.
bool all_finite(const Tensor& tensor);

}  // namespace capstan::optim
