#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/matmul.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "optim/measures.h"

namespace capstan::optim {
namespace {

void check(const MuonOptions& o) {
  check_fraction("muon", "momentum", o.momentum);
  check_not_negative("muon", "weight_decay", o.weight_decay);
}

NamedTensors keep(const MuonOptions&, const Tensor& parameter) {
  return zeros_beside(parameter, {"momentum"});
}

/// Brings the singular values of a matrix [n, m] near 1. Wide matrices are cheaper: s is [n, n].
Tensor orthogonal(const Tensor& matrix) {
  if (matrix.size(0) > matrix.size(1)) return transpose(orthogonal(transpose(matrix, 0, 1)), 0, 1);
  const double norm = two_norm(contiguous(matrix));
  Tensor x = matrix / (norm + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const Tensor s = matmul(x, transpose(x, 0, 1));
    x = x * 3.4445 + matmul(s * -4.7750 + matmul(s, s) * 2.0315, x);
  }
  return x;
}

}  // namespace

Muon::Muon(NamedTensors parameters, MuonOptions options, Groups<MuonOptions> groups)
    : OptimizerOf({"muon", Sees::tensors}, std::move(parameters), options, groups, check, keep) {
  for (const auto& [name, parameter] : this->parameters()) {
    if (parameter.rank() < 2) {
      raise<ShapeError>(
          "[muon] parameter '{}' of {} must have at least two axes: give biases and norms to "
          "another optimizer",
          name, parameter.shape());
    }
  }
}

Update Muon::update(const MuonOptions& o, const Turn& turn) {
  const auto& [rate, step, p, g, kept] = turn;
  if (p.numel() == 0) return {SgdRule{.rate = rate}, p, g};
  // What Sgd would add to zeros at a rate of -1.
  const Tensor direction = zeros(p.shape(), {p.dtype(), p.device()});
  apply_update(
      {SgdRule{.rate = -1, .momentum = o.momentum, .nesterov = o.nesterov}, direction, g, kept});

  const Tensor x = orthogonal(flatten(direction, 1));
  const double scale = std::sqrt(std::max(1.0, double(x.size(0)) / double(x.size(1))));
  const SgdRule rule{.rate = rate * scale, .weight_decay = o.weight_decay / scale};
  return {rule, p, contiguous(reshape(x, p.shape()))};
}

}  // namespace capstan::optim
