#include "optim/adamw.h"

#include <cmath>

#include "core/backend.h"
#include "core/raise.h"

namespace capstan::optim {

AdamW::AdamW(NamedTensors parameters, AdamWOptions options)
    : Optimizer(std::move(parameters), {"first_moment", "second_moment"}), options_(options) {
  for (double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1))
      raise<ValueError>("[adamw] betas must be in [0, 1), got {}", beta);
  }
  if (!(options.epsilon > 0 && std::isfinite(options.epsilon))) {
    raise<ValueError>("[adamw] epsilon must be a number above 0, got {}", options.epsilon);
  }
  if (!(options.weight_decay >= 0 && std::isfinite(options.weight_decay))) {
    raise<ValueError>("[adamw] weight decay must be a number >= 0, got {}", options.weight_decay);
  }
}

void AdamW::update(double rate, int64_t step, const Tensor& parameter, const Tensor& grad,
                   const std::vector<Tensor>& kept) {
  backend(parameter).adam({.rate = rate,
                           .beta1 = options_.beta1,
                           .beta2 = options_.beta2,
                           .epsilon = options_.epsilon,
                           .weight_decay = options_.weight_decay,
                           .step = step},
                          parameter, grad, kept[0], kept[1]);
}

}  // namespace capstan::optim
