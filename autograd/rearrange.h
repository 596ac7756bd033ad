// Defines differentiable operations that build a new tensor out of parts of others.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace capstan {

/// Tensors one after the other along an axis; the other axes must be equal, dtypes are promoted.
/// Throws ShapeError also for an empty list, DeviceError.
Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// Tensors of one shape along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// Adds before[i] and after[i] elements of `value` at the ends of axis i. Throws ShapeError unless
/// there is a pair for each axis, ValueError for negative ones.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value = 0);
/// The whole tensor counts[i] times along axis i; counts may name new axes at the left. Throws
/// ShapeError for fewer counts than axes, ValueError for negative ones.
Tensor repeat(const Tensor& x, const Dims& counts);
/// Moves the elements along an axis by `shift` places, round the end.
Tensor roll(const Tensor& x, int64_t shift, int64_t axis);
/// Keeps what lies on and below (tril) or above (triu) a diagonal of the last two axes, and puts 0
/// elsewhere. Diagonal 0 is the main one, higher numbers lie above it.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace capstan
