// Defines Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012, algorithm 1).
//
// With gradient g:
//   g = g + weight_decay * p;  s = rho s + (1 - rho) g^2
//   change = sqrt(d + epsilon) / sqrt(s + epsilon) * g;  d = rho d + (1 - rho) change^2
//   p = p - rate * change, where the paper's rate is 1
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct AdadeltaOptions {
  double rho = 0.9;
  double epsilon = 1e-6;
  double weight_decay = 0;
};

class Adadelta final : public OptimizerOf<AdadeltaOptions> {
 public:
  /// Throws ValueError for rho outside [0, 1), a negative decay, or epsilon not above 0.
  explicit Adadelta(NamedTensors parameters, AdadeltaOptions options = {},
                    Groups<AdadeltaOptions> groups = {});

 private:
  Update update(const AdadeltaOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
