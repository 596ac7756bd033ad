#include "optim/lamb.h"

#include <cmath>

#include "optim/measures.h"

namespace capstan::optim {
namespace {

void check(const LambOptions& o) {
  check_fraction("lamb", "beta1", o.beta1);
  check_fraction("lamb", "beta2", o.beta2);
  check_positive("lamb", "epsilon", o.epsilon);
  check_not_negative("lamb", "weight_decay", o.weight_decay);
}

NamedTensors keep(const LambOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"first_moment", "second_moment"});
}

}  // namespace

Lamb::Lamb(NamedTensors parameters, LambOptions options, Groups<LambOptions> groups)
    : OptimizerOf(std::move(parameters), options, groups, check, keep) {}

Update Lamb::update(const LambOptions& o, const Turn& turn) {
  const double step = static_cast<double>(turn.step);
  const Tensor direction = empty_like(turn.parameter);
  const Tensor kept[] = {turn.kept[0], turn.kept[1], direction};
  const LambRule rule{.beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .epsilon = o.epsilon,
                      .weight_decay = o.weight_decay,
                      .bias1 = 1 - std::pow(o.beta1, step),
                      .bias2 = 1 - std::pow(o.beta2, step)};
  apply_update({rule, turn.parameter, turn.grad, kept});

  double trust = 1;
  if (o.adapt) {
    const double size = two_norm(turn.parameter);
    const double length = two_norm(direction);
    if (size > 0 && length > 0) trust = size / length;
  }
  return {SgdRule{.rate = turn.rate * trust}, turn.parameter, direction};
}

}  // namespace capstan::optim
