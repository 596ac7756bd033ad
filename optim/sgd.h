// Defines Sgd, stochastic gradient descent with momentum.
//
// With gradient g, weight decay d, momentum m (Sutskever et al., "On the importance of
// initialization and momentum in deep learning", ICML 2013; in the form that PyTorch uses):
//   g = g + d p;  v = m v + g;  p = p - rate * (nesterov ? g + m v : v)
#pragma once

#include "optim/optimizer.h"

namespace capstan::optim {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class Sgd final : public Optimizer {
 public:
  /// Throws ValueError for a negative option, momentum >= 1, or Nesterov without momentum.
  explicit Sgd(NamedTensors parameters, SgdOptions options = {});

 private:
  void update(double rate, int64_t step, const Tensor& parameter, const Tensor& grad,
              const std::vector<Tensor>& kept) override;

  SgdOptions options_;
};

}  // namespace capstan::optim
