#include "optim/adamw.h"

#include "optim/moments.h"

namespace capstan::optim {
namespace {

void check(const AdamWOptions& o) { check_moments("adamw", o); }

NamedTensors keep(const AdamWOptions&, const Tensor& parameter) { return keep_moments(parameter); }

}  // namespace

AdamW::AdamW(NamedTensors parameters, AdamWOptions options, Groups<AdamWOptions> groups)
    : OptimizerOf({"adamw", Sees::elements}, std::move(parameters), options, groups, check, keep) {}

Update AdamW::update(const AdamWOptions& o, const Turn& turn) {
  AdamRule rule = adam_rule(o, turn.rate, turn.step);
  rule.decay = o.weight_decay;
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
