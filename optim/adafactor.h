// Defines Adafactor, which keeps for an n by m matrix n + m numbers instead of Adam's 2 n m
// (Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018,
// algorithms 4 and 5).
//
// With gradient g at the parameter's step t, for parameters of at least two axes (of more: for each
// matrix of the last two), and beta = 1 - t^-decay:
//   r = beta r + (1 - beta) mean over columns of (g^2 + floor)
//   c = beta c + (1 - beta) mean over rows of (g^2 + floor)
//   v = r c / mean(r)
// for others v = beta v + (1 - beta) (g^2 + floor); and for all
//   u = g / sqrt(v);  u = u / max(1, rms(u) / threshold)
//   p = p - rate * max(least_scale, rms(p)) * u - rate * weight_decay * p
// The paper's rate is min(0.01, 1/sqrt(t)); it multiplies the parameter's own scale, rms(p).
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct AdafactorOptions {
  double decay = 0.8;
  double floor = 1e-30;       // the paper's epsilon 1
  double least_scale = 1e-3;  // the paper's epsilon 2
  double threshold = 1;
  double weight_decay = 0;
};

class Adafactor final : public OptimizerOf<AdafactorOptions> {
 public:
  /// Throws ValueError for a weight decay below 0, or another option not above 0.
  explicit Adafactor(NamedTensors parameters, AdafactorOptions options = {},
                     Groups<AdafactorOptions> groups = {});

 private:
  Update update(const AdafactorOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
