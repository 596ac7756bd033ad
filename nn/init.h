// Defines how weights start.
#pragma once

#include "core/random.h"

namespace capstan::nn {

/// Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)): the start of linear and convolution layers,
/// weights and biases. It is Kaiming's uniform scheme (He et al., "Delving deep into rectifiers",
/// ICCV 2015, eq. 10) with a gain of sqrt(1/3). Throws ValueError for fan_in below 1.
Tensor fan_in_uniform(const Shape& shape, int64_t fan_in,
                      Generator& generator = default_generator());

}  // namespace capstan::nn
