#include "optim/adagrad.h"

namespace capstan::optim {
namespace {

void check(const AdagradOptions& o) {
  check_positive("adagrad", "epsilon", o.epsilon);
  check_not_negative("adagrad", "weight_decay", o.weight_decay);
  check_not_negative("adagrad", "start", o.start);
}

NamedTensors keep(const AdagradOptions& o, const Tensor& parameter) {
  return {
      {"square_sum", full(parameter.shape(), o.start, {parameter.dtype(), parameter.device()})}};
}

}  // namespace

Adagrad::Adagrad(NamedTensors parameters, AdagradOptions options, Groups<AdagradOptions> groups)
    : OptimizerOf({"adagrad", Sees::elements}, std::move(parameters), options, groups, check,
                  keep) {}

Update Adagrad::update(const AdagradOptions& o, const Turn& turn) {
  const AdagradRule rule{.rate = turn.rate, .epsilon = o.epsilon, .weight_decay = o.weight_decay};
  return {rule, turn.parameter, turn.grad, turn.kept};
}

}  // namespace capstan::optim
