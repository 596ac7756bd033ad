#include "optim/rmsprop.h"

namespace capstan::optim {
namespace {

void check(const RmspropOptions& o) {
  check_fraction("rmsprop", "alpha", o.alpha);
  check_positive("rmsprop", "epsilon", o.epsilon);
  check_fraction("rmsprop", "momentum", o.momentum);
  check_not_negative("rmsprop", "weight_decay", o.weight_decay);
}

NamedTensors keep(const RmspropOptions& o, const Tensor& parameter) {
  NamedTensors kept = zeros_beside(parameter, {"square_average", "average", "momentum"});
  if (!o.centered) kept[1].second = Tensor();
  if (o.momentum == 0) kept[2].second = Tensor();
  return kept;
}

}  // namespace

Rmsprop::Rmsprop(NamedTensors parameters, RmspropOptions options, Groups<RmspropOptions> groups)
    : OptimizerOf({"rmsprop", Sees::elements}, std::move(parameters), options, groups, check,
                  keep) {}

Update Rmsprop::update(const RmspropOptions& o, const Turn& turn) {
  const RmspropRule rule{.rate = turn.rate,
                         .alpha = o.alpha,
                         .epsilon = o.epsilon,
                         .momentum = o.momentum,
                         .weight_decay = o.weight_decay,
                         .centered = o.centered};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
