// Defines Adagrad (Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and
// stochastic optimization", JMLR 2011; the diagonal form of figure 1).
//
// With gradient g:
//   g = g + weight_decay * p;  s = s + g^2, from s = start
//   p = p - rate * g / (sqrt(s) + epsilon)
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct AdagradOptions {
  double epsilon = 1e-10;
  double weight_decay = 0;
  double start = 0;
};

class Adagrad final : public OptimizerOf<AdagradOptions> {
 public:
  /// Throws ValueError for a negative decay or start, or epsilon not above 0.
  explicit Adagrad(NamedTensors parameters, AdagradOptions options = {},
                   Groups<AdagradOptions> groups = {});

 private:
  Update update(const AdagradOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
