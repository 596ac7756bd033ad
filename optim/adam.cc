#include "optim/adam.h"

#include "optim/moments.h"

namespace capstan::optim {
namespace {

void check(const AdamOptions& o) { check_moments("adam", o); }

NamedTensors keep(const AdamOptions& o, const Tensor& parameter) {
  if (!o.amsgrad) return keep_moments(parameter);
  return zeros_beside(parameter, {"first_moment", "second_moment", "largest_second_moment"});
}

}  // namespace

Adam::Adam(NamedTensors parameters, AdamOptions options, Groups<AdamOptions> groups)
    : OptimizerOf({"adam", Sees::elements}, std::move(parameters), options, groups, check, keep) {}

Update Adam::update(const AdamOptions& o, const Turn& turn) {
  AdamRule rule = adam_rule(o, turn.rate, turn.step);
  rule.l2 = o.weight_decay;
  rule.amsgrad = o.amsgrad;
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
