#include "optim/sgd.h"

#include "core/raise.h"

namespace capstan::optim {
namespace {

void check(const SgdOptions& o) {
  check_fraction("sgd", "momentum", o.momentum);
  check_not_negative("sgd", "weight_decay", o.weight_decay);
  if (o.nesterov && o.momentum == 0) raise<ValueError>("[sgd] Nesterov needs a momentum above 0");
}

NamedTensors keep(const SgdOptions& o, const Tensor& parameter) {
  if (o.momentum == 0) return {};
  return zeros_beside(parameter, {"momentum"});
}

}  // namespace

Sgd::Sgd(NamedTensors parameters, SgdOptions options, Groups<SgdOptions> groups)
    : OptimizerOf({"sgd", Sees::elements}, std::move(parameters), options, groups, check, keep) {}

Update Sgd::update(const SgdOptions& o, const Turn& turn) {
  const SgdRule rule{.rate = turn.rate,
                     .momentum = o.momentum,
                     .weight_decay = o.weight_decay,
                     .nesterov = o.nesterov};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
