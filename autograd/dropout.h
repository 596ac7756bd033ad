// Defines dropout (Srivastava et al., "Dropout: a simple way to prevent neural networks from
// overfitting", JMLR 2014), in the inverted form that needs no change at evaluation.
#pragma once

#include "core/random.h"

namespace capstan {

/// Sets each element to 0 with probability `p` and divides the others by 1 - p. The choice for
/// element i depends on the generator's seed and offset + i alone; the backward pass draws it again
/// instead of storing a mask. Throws ValueError unless 0 <= p < 1.
Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator());

}  // namespace capstan
