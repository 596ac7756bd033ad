// Defines Muon: momentum whose matrix is replaced by the nearest orthogonal one, so that all
// directions move alike (Jordan et al., "Muon: an optimizer for hidden layers in neural networks",
// 2024, https://kellerjordan.github.io/posts/muon).
//
// With gradient g as a matrix of n rows (the parameter's first axis) by m columns (all others):
//   b = momentum b + g;  x = nesterov ? g + momentum b : b;  x = x / |x|
//   five times, with a = 3.4445, b = -4.7750, c = 2.0315 (a Newton-Schulz iteration that brings the
//   singular values near 1):  s = x x';  x = a x + (b s + c s s) x
//   p = p - rate * (sqrt(max(1, n / m)) * x + weight_decay * p)
// It is for the weights of hidden layers: embeddings, the last layer, biases and norms go to an
// AdamW beside it.
//
//   const auto hidden = [](const std::string& name, const Tensor& p) {
//     return p.rank() >= 2 && !name.starts_with("head.");
//   };
//   Muon muon(filter(model.parameters(), hidden));
//   AdamW adamw(filter(model.parameters(), std::not_fn(hidden)));
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct MuonOptions {
  double momentum = 0.95;
  double weight_decay = 0;
  bool nesterov = true;
};

class Muon final : public OptimizerOf<MuonOptions> {
 public:
  /// Throws ValueError for momentum outside [0, 1) or a negative decay, ShapeError for a parameter
  /// of fewer than two axes.
  explicit Muon(NamedTensors parameters, MuonOptions options = {}, Groups<MuonOptions> groups = {});

 private:
  Update update(const MuonOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
