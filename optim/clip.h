// Defines gradient clipping by the global norm (Pascanu et al., "On the difficulty of training
// recurrent neural networks", ICML 2013, algorithm 1).
#pragma once

#include "core/tensor.h"

namespace capstan::optim {

/// The 2-norm of all gradients taken as one vector, summed in float64.
double grad_norm(const NamedTensors& parameters);

/// Scales all gradients by min(1, limit / (norm + 1e-6)) and returns the norm before. Throws
/// ValueError unless limit > 0, and for a norm that is not finite, naming the parameter that made
/// it so.
double clip_grad_norm(const NamedTensors& parameters, double limit);

}  // namespace capstan::optim
