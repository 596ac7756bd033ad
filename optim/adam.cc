#include "optim/adam.h"

#include <cmath>

namespace capstan::optim {
namespace {

void check(const AdamOptions& o) {
  check_fraction("adam", "beta1", o.beta1);
  check_fraction("adam", "beta2", o.beta2);
  check_positive("adam", "epsilon", o.epsilon);
  check_not_negative("adam", "weight_decay", o.weight_decay);
}

NamedTensors keep(const AdamOptions& o, const Tensor& parameter) {
  if (!o.amsgrad) return zeros_beside(parameter, {"first_moment", "second_moment"});
  return zeros_beside(parameter, {"first_moment", "second_moment", "largest_second_moment"});
}

}  // namespace

Adam::Adam(NamedTensors parameters, AdamOptions options, Groups<AdamOptions> groups)
    : OptimizerOf(std::move(parameters), options, groups, check, keep) {}

Update Adam::update(const AdamOptions& o, const Turn& turn) {
  const double step = static_cast<double>(turn.step);
  const AdamRule rule{.rate = turn.rate,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .epsilon = o.epsilon,
                      .bias1 = 1 - std::pow(o.beta1, step),
                      .bias2 = 1 - std::pow(o.beta2, step),
                      .l2 = o.weight_decay,
                      .amsgrad = o.amsgrad};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
