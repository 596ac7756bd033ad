// Defines Lamb: Adam with a rate of its own for each layer (You et al., "Large batch optimization
// for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2, with phi(x) = x).
//
// With gradient g at the parameter's step t, and norms over the whole parameter:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * p
//   p = p - rate * trust * u, where trust = |p| / |u|, and 1 where either norm is 0
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  bool adapt = true;  // false: trust is 1
};

class Lamb final : public OptimizerOf<LambOptions> {
 public:
  /// Throws ValueError for betas outside [0, 1), a negative decay, or epsilon not above 0.
  explicit Lamb(NamedTensors parameters, LambOptions options = {}, Groups<LambOptions> groups = {});

 private:
  Update update(const LambOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
