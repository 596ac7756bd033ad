#include "optim/optimizer.h"

#include <cmath>

#include "autograd/arithmetic.h"
#include "autograd/autocast.h"
#include "autograd/node.h"
#include "core/raise.h"
#include "core/state.h"

namespace capstan::optim {
namespace {

// Enough work for one parallel loop. More would keep the temporary tensors of more parameters.
constexpr int64_t kElementsTogether = 1 << 20;

}  // namespace

Optimizer::Optimizer(const Kind& kind, NamedTensors parameters)
    : parameters_(std::move(parameters)) {
  check_parameters(kind, parameters_);
  kept_.resize(parameters_.size());
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (is_half(parameter.dtype()))
      kept_[i].master = empty(parameter.shape(), {Dtype::float32, parameter.device()});
    if (kept_[i].master.defined()) copy_elements(parameter, kept_[i].master);
  }
}

const Tensor& Optimizer::stepped(size_t index) const {
  const Tensor& master = kept_[index].master;
  return master.defined() ? master : parameters_[index].second;
}

/// Before a step: master weights that round to something else than the parameter are of before
/// somebody wrote into it.
void Optimizer::follow(size_t index) {
  const auto& [name, parameter] = parameters_[index];
  Kept& kept = kept_[index];
  if (!kept.master.defined() || kept.written == parameter.storage().version()) return;
  const Tensor own = detach(parameter), rounded = cast(kept.master, own.dtype());
  copy_elements(where(equal(rounded, own), kept.master, own), kept.master);
}

/// Applies and forgets `updates`, those of the parameters `indices`, and rounds master weights.
void Optimizer::apply(std::vector<Update>& updates, std::vector<size_t>& indices) {
  apply_updates(updates);
  for (const size_t i : indices) {
    Kept& kept = kept_[i];
    if (!kept.master.defined()) continue;
    copy_elements(kept.master, parameters_[i].second);
    kept.written = parameters_[i].second.storage().version();
  }
  updates.clear();
  indices.clear();
}

void Optimizer::add_state(size_t index, const NamedTensors& quantities) {
  const std::string prefix = parameters_[index].first + ".";
  Kept& kept = kept_[index];
  for (const auto& [name, tensor] : quantities) {
    kept.tensors.push_back(tensor);
    if (tensor.defined()) state_.emplace_back(prefix + name, tensor);
  }
  if (kept.master.defined()) state_.emplace_back(prefix + "master", kept.master);
  kept.steps = zeros({}, {.dtype = Dtype::int64});
  state_.emplace_back(prefix + "steps", kept.steps);
}

void Optimizer::step(double rate) {
  if (!(rate >= 0) || std::isinf(rate)) {
    raise<ValueError>("[optimizer.step] the rate must be a number >= 0, got {}", rate);
  }
  check_reduced(parameters_);
  NoGrad guard;
  const Autocast exact(std::nullopt);  // a guard of the forward pass may still live
  std::vector<Update> updates;
  std::vector<size_t> indices;
  int64_t elements = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (!parameter.has_grad()) continue;
    follow(i);
    const int64_t step = ++*kept_[i].steps.mutable_data<int64_t>();
    const Tensor grad = cast(parameter.grad(), compute_dtype(parameter.dtype()));
    updates.push_back(update(i, {rate, step, stepped(i), grad, kept_[i].tensors}));
    indices.push_back(i);
    elements += parameter.numel();
    if (elements >= kElementsTogether) {
      apply(updates, indices);
      elements = 0;
    }
  }
  apply(updates, indices);
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
