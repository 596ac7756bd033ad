#include "optim/adadelta.h"

namespace capstan::optim {
namespace {

void check(const AdadeltaOptions& o) {
  check_fraction("adadelta", "rho", o.rho);
  check_positive("adadelta", "epsilon", o.epsilon);
  check_not_negative("adadelta", "weight_decay", o.weight_decay);
}

NamedTensors keep(const AdadeltaOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"square_average", "change_average"});
}

}  // namespace

Adadelta::Adadelta(NamedTensors parameters, AdadeltaOptions options, Groups<AdadeltaOptions> groups)
    : OptimizerOf({"adadelta", Sees::elements}, std::move(parameters), options, groups, check,
                  keep) {}

Update Adadelta::update(const AdadeltaOptions& o, const Turn& turn) {
  const AdadeltaRule rule{
      .rate = turn.rate, .rho = o.rho, .epsilon = o.epsilon, .weight_decay = o.weight_decay};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
