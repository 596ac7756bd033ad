// Defines Sgd, stochastic gradient descent with momentum.
//
// With gradient g, weight decay d, momentum m (Sutskever et al., "On the importance of
// initialization and momentum in deep learning", ICML 2013; in the form that PyTorch uses, with the
// rate outside the buffer):
//   g = g + d p;  b = m b + g;  p = p - rate * (nesterov ? g + m b : b)
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class Sgd final : public OptimizerOf<SgdOptions> {
 public:
  /// Throws ValueError for a negative option, momentum >= 1, or Nesterov without momentum.
  explicit Sgd(NamedTensors parameters, SgdOptions options = {}, Groups<SgdOptions> groups = {});

 private:
  Update update(const SgdOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
