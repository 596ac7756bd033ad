// Defines dropout (Srivastava et al., "Dropout: a simple way to prevent neural networks from
// overfitting", JMLR 2014), in the inverted form that needs no change at evaluation.
#pragma once

#include "core/part.h"
#include "core/random.h"

namespace capstan {

/// Sets each element to 0 with probability `p` and divides the others by 1 - p. The choice for
/// element i depends on the generator's seed and offset + i alone; the backward pass draws it again
/// instead of storing a mask. Throws ValueError unless 0 <= p < 1.
Tensor dropout(const Tensor& x, double p, Generator& generator = default_generator());
/// The same where x is a part of a larger tensor: the choices, and how far the generator moves on,
/// are those of dropout() of the whole. Throws ShapeError for a part of another size, too.
Tensor dropout(const Tensor& x, double p, const Part& part,
               Generator& generator = default_generator());

}  // namespace capstan
