#include "optim/adamw.h"

#include <cmath>

namespace capstan::optim {
namespace {

void check(const AdamWOptions& o) {
  check_fraction("adamw", "beta1", o.beta1);
  check_fraction("adamw", "beta2", o.beta2);
  check_positive("adamw", "epsilon", o.epsilon);
  check_not_negative("adamw", "weight_decay", o.weight_decay);
}

NamedTensors keep(const AdamWOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"first_moment", "second_moment"});
}

}  // namespace

AdamW::AdamW(NamedTensors parameters, AdamWOptions options, Groups<AdamWOptions> groups)
    : OptimizerOf(std::move(parameters), options, groups, check, keep) {}

Update AdamW::update(const AdamWOptions& o, const Turn& turn) {
  const double step = static_cast<double>(turn.step);
  const AdamRule rule{.rate = turn.rate,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .epsilon = o.epsilon,
                      .bias1 = 1 - std::pow(o.beta1, step),
                      .bias2 = 1 - std::pow(o.beta2, step),
                      .decay = o.weight_decay};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
