// Defines what the optimizers with two moments of the gradient share: Adam, AdamW and LAMB.
// (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.)
#pragma once

#include <cmath>

#include "optim/optimizer.h"

namespace capstan::optim {

/// Options with beta1, beta2, epsilon and weight_decay. Throws ValueError as check.h does.
template <class Options>
void check_moments(const char* owner, const Options& o) {
  check_fraction(owner, "beta1", o.beta1);
  check_fraction(owner, "beta2", o.beta2);
  check_positive(owner, "epsilon", o.epsilon);
  check_not_negative(owner, "weight_decay", o.weight_decay);
}

/// The two moments, zero before the first step.
inline NamedTensors keep_moments(const Tensor& parameter) {
  return zeros_beside(parameter, {"first_moment", "second_moment"});
}

/// 1 - beta^step: what a moment that began at zero has seen of the gradients.
inline double bias_correction(double beta, int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

/// Adam's rule at this step, before any weight decay.
template <class Options>
AdamRule adam_rule(const Options& o, double rate, int64_t step) {
  return {.rate = rate,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .bias1 = bias_correction(o.beta1, step),
          .bias2 = bias_correction(o.beta2, step)};
}

}  // namespace capstan::optim
