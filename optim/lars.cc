#include "optim/lars.h"

#include "optim/measures.h"

namespace capstan::optim {
namespace {

void check(const LarsOptions& o) {
  check_fraction("lars", "momentum", o.momentum);
  check_not_negative("lars", "weight_decay", o.weight_decay);
  check_positive("lars", "coefficient", o.coefficient);
}

NamedTensors keep(const LarsOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"momentum"});
}

}  // namespace

Lars::Lars(NamedTensors parameters, LarsOptions options, Groups<LarsOptions> groups)
    : OptimizerOf({"lars", Sees::tensors}, std::move(parameters), options, groups, check, keep) {}

Update Lars::update(const LarsOptions& o, const Turn& turn) {
  double trust = 1;
  if (o.adapt) {
    const double size = two_norm(turn.parameter);
    const double slope = two_norm(turn.grad);
    if (size > 0 && slope > 0) trust = o.coefficient * size / (slope + o.weight_decay * size);
  }
  const SgdRule rule{.rate = 1,
                     .momentum = o.momentum,
                     .weight_decay = o.weight_decay,
                     .share = turn.rate * trust};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
