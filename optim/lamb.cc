#include "optim/lamb.h"

#include "optim/measures.h"
#include "optim/moments.h"

namespace capstan::optim {
namespace {

void check(const LambOptions& o) { check_moments("lamb", o); }

NamedTensors keep(const LambOptions&, const Tensor& parameter) { return keep_moments(parameter); }

}  // namespace

Lamb::Lamb(NamedTensors parameters, LambOptions options, Groups<LambOptions> groups)
    : OptimizerOf({"lamb", Sees::tensors}, std::move(parameters), options, groups, check, keep) {}

Update Lamb::update(const LambOptions& o, const Turn& turn) {
  const Tensor direction = empty_like(turn.parameter);
  const Tensor kept[] = {turn.kept[0], turn.kept[1], direction};
  const LambRule rule{.beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .epsilon = o.epsilon,
                      .weight_decay = o.weight_decay,
                      .bias1 = bias_correction(o.beta1, turn.step),
                      .bias2 = bias_correction(o.beta2, turn.step)};
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
