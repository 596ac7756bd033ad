// Defines Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023,
// algorithm 2). Every element moves by the rate, so the rate is 3 to 10 times smaller than
// AdamW's, and the decay as much larger (section 5).
//
// With gradient g:
//   p = p - rate * (sign(beta1 m + (1 - beta1) g) + weight_decay * p)
//   m = beta2 m + (1 - beta2) g
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

class Lion final : public OptimizerOf<LionOptions> {
 public:
  /// Throws ValueError for betas outside [0, 1) or a negative decay.
  explicit Lion(NamedTensors parameters, LionOptions options = {}, Groups<LionOptions> groups = {});

 private:
  Update update(const LionOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
