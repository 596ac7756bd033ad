#include "optim/optimizer.h"

#include <cmath>

#include "autograd/node.h"
#include "core/raise.h"
#include "core/state.h"
#include "optim/check.h"

namespace capstan::optim {
namespace {

// Enough work for one parallel loop. More would keep the temporary tensors of more parameters.
constexpr int64_t kElementsTogether = 1 << 20;

}  // namespace

Optimizer::Optimizer(NamedTensors parameters) : parameters_(std::move(parameters)) {
  check_parameters(parameters_);
  kept_.resize(parameters_.size());
}

void Optimizer::add_state(size_t index, const NamedTensors& quantities) {
  const std::string prefix = parameters_[index].first + ".";
  Kept& kept = kept_[index];
  for (const auto& [name, tensor] : quantities) {
    kept.tensors.push_back(tensor);
    if (tensor.defined()) state_.emplace_back(prefix + name, tensor);
  }
  kept.steps = zeros({}, {.dtype = Dtype::int64});
  state_.emplace_back(prefix + "steps", kept.steps);
}

void Optimizer::step(double rate) {
  if (!(rate >= 0) || std::isinf(rate)) {
    raise<ValueError>("[optimizer.step] the rate must be a number >= 0, got {}", rate);
  }
  check_reduced(parameters_);
  NoGrad guard;
  std::vector<Update> updates;
  int64_t elements = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (!parameter.has_grad()) continue;
    const int64_t step = ++*kept_[i].steps.mutable_data<int64_t>();
    updates.push_back(update(i, {rate, step, parameter, parameter.grad(), kept_[i].tensors}));
    elements += parameter.numel();
    if (elements >= kElementsTogether) {
      apply_updates(updates);
      updates.clear();
      elements = 0;
    }
  }
  apply_updates(updates);
}

void Optimizer::zero_grad() {
  for (const auto& [_, parameter] : parameters_) {
    if (parameter.requires_grad()) capstan::zero_grad(parameter);
  }
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state) {
  check_state("load_state", "optimizer", state_, state);
  for (const auto& [name, _] : parameters_) {
    const int64_t steps = state.at(name + ".steps").item<int64_t>();
    if (steps < 0) {
      raise<ValueError>("[load_state] {}.steps must be at least 0, got {}", name, steps);
    }
  }
  copy_state("load_state", "optimizer", state_, state);
}

}  // namespace capstan::optim
