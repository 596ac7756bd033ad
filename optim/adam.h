// Defines Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm
// 1), and AMSGrad (Reddi et al., "On the convergence of Adam and beyond", ICLR 2018).
//
// With gradient g at the parameter's step t:
//   g = g + weight_decay * p      an L2 penalty, which Adam rescales as it does the gradient;
//                                 AdamW (adamw.h) does not, and is what is mostly wanted
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - rate * (m / (1 - beta1^t)) / (sqrt(w / (1 - beta2^t)) + epsilon)
// where w is v, and with AMSGrad the largest v so far.
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};

class Adam final : public OptimizerOf<AdamOptions> {
 public:
  /// Throws ValueError for betas outside [0, 1), a negative decay, or epsilon not above 0.
  explicit Adam(NamedTensors parameters, AdamOptions options = {}, Groups<AdamOptions> groups = {});

 private:
  Update update(const AdamOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
