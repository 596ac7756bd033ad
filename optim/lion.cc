#include "optim/lion.h"

namespace capstan::optim {
namespace {

void check(const LionOptions& o) {
  check_fraction("lion", "beta1", o.beta1);
  check_fraction("lion", "beta2", o.beta2);
  check_not_negative("lion", "weight_decay", o.weight_decay);
}

NamedTensors keep(const LionOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"momentum"});
}

}  // namespace

Lion::Lion(NamedTensors parameters, LionOptions options, Groups<LionOptions> groups)
    : OptimizerOf({"lion", Sees::elements}, std::move(parameters), options, groups, check, keep) {}

Update Lion::update(const LionOptions& o, const Turn& turn) {
  const LionRule rule{
      .rate = turn.rate, .beta1 = o.beta1, .beta2 = o.beta2, .decay = o.weight_decay};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
