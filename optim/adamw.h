// Defines AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay
// regularization", ICLR 2019, algorithm 2; Kingma and Ba, "Adam", ICLR 2015).
//
// With gradient g at the parameter's step t:
//   p = p - rate * weight_decay * p
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

class AdamW final : public OptimizerOf<AdamWOptions> {
 public:
  /// Throws ValueError for betas outside [0, 1), a negative decay, or epsilon not above 0.
  explicit AdamW(NamedTensors parameters, AdamWOptions options = {},
                 Groups<AdamWOptions> groups = {});

 private:
  Update update(const AdamWOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
