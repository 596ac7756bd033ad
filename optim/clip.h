// Defines gradient clipping: by the global norm (Pascanu et al., "On the difficulty of training
// recurrent neural networks", ICML 2013, algorithm 1), and of each element by itself.
#pragma once

#include "core/exact_sum.h"
#include "core/tensor.h"

namespace capstan::optim {

/// The sum of the squares of all gradients: exact, so that it is the same however they are cut into
/// tensors, and parts of it on several ranks add up to the same.
ExactSum squares_of_gradients(const NamedTensors& parameters);

/// The 2-norm of all gradients taken as one vector. Throws as check_whole() does.
double grad_norm(const NamedTensors& parameters);

/// Scales all gradients by min(1, limit / (norm + 1e-6)) and returns the norm before. Throws
/// ValueError unless limit > 0, and for a norm that is not finite, naming the parameter that made
/// it so; and as check_whole() does.
double clip_grad_norm(const NamedTensors& parameters, double limit);
/// Its second half, for gradients that are a part of those with this norm.
void scale_to_norm(const NamedTensors& parameters, double norm, double limit);

/// Brings every element of every gradient into [-limit, limit]. The direction changes; the norm is
/// mostly the better choice. Throws ValueError unless limit > 0 and finite, and, before anything is
/// changed, for a gradient that is not finite, naming its parameter.
void clip_grad_value(const NamedTensors& parameters, double limit);

}  // namespace capstan::optim
