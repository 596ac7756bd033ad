#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "autograd/node.h"
#include "core/raise.h"

namespace capstan::optim {

Optimizer::Optimizer(NamedTensors parameters, std::vector<std::string> quantities)
    : parameters_(std::move(parameters)),
      quantities_(std::move(quantities)),
      kept_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    for (size_t j = 0; j < i; ++j) {
      const auto& [earlier, other] = parameters_[j];
      if (earlier == name) raise<ValueError>("[optimizer] two parameters are named '{}'", name);
      if (other.same(parameter)) {
        raise<ValueError>("[optimizer] '{}' and '{}' are one parameter: name it once", earlier,
                          name);
      }
    }
    if (!is_floating(parameter.dtype())) {
      raise<DtypeError>("[optimizer] parameter '{}' must be float32 or float64, got {}", name,
                        parameter.dtype());
    }
    if (parameter.requires_grad() && !static_cast<Node&>(*parameter.body().node).is_leaf()) {
      raise<GradientError>("[optimizer] '{}' is the result of an operation, not a parameter", name);
    }
    if (!parameter.is_contiguous()) {
      raise<ValueError>("[optimizer] parameter '{}' of {} must be contiguous", name,
                        parameter.shape());
    }
    for (size_t q = 0; q < quantities_.size(); ++q) {
      kept_[i].tensors.push_back(zeros(parameter.shape(), {parameter.dtype(), parameter.device()}));
    }
  }
}

void Optimizer::step(double rate) {
  if (!(rate >= 0) || std::isinf(rate)) {
    raise<ValueError>("[optimizer.step] the rate must be a number >= 0, got {}", rate);
  }
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.requires_grad() && accumulator(parameter).unreduced) {
      raise<GradientError>(
          "[optimizer.step] the gradient of '{}' is this rank's share only: its backward passes "
          "did not "
          "reduce; end the window with a reducing one",
          name);
    }
  }
  NoGrad guard;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (!parameter.has_grad()) continue;
    update(rate, ++kept_[i].steps, parameter, parameter.grad(), kept_[i].tensors);
  }
}

void Optimizer::zero_grad() {
  for (const auto& [_, parameter] : parameters_) {
    if (parameter.requires_grad()) capstan::zero_grad(parameter);
  }
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    for (size_t q = 0; q < quantities_.size(); ++q) {
      state.emplace_back(name + "." + quantities_[q], kept_[i].tensors[q]);
    }
    state.emplace_back(name + ".steps", from_vector<int64_t>({kept_[i].steps}, {}));
  }
  return state;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state) {
  const NamedTensors own = this->state();
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end()) {
      raise<ValueError>("[load_state] the state is of another optimizer or model: '{}' is missing",
                        name);
    }
    if (found->second.shape() != tensor.shape()) {
      raise<ShapeError>("[load_state] {} is {} here and {} in the state", name, tensor.shape(),
                        found->second.shape());
    }
    if (found->second.dtype() != tensor.dtype()) {
      raise<DtypeError>("[load_state] {} is {} here and {} in the state", name, tensor.dtype(),
                        found->second.dtype());
    }
    if (found->second.device().kind == Device::Kind::meta) {
      raise<DeviceError>("[load_state] {} has no elements: it is on meta in the state", name);
    }
    if (tensor.dtype() == Dtype::int64 && found->second.item<int64_t>() < 0) {
      raise<ValueError>("[load_state] {} must be at least 0, got {}", name,
                        found->second.item<int64_t>());
    }
  }
  if (state.size() != own.size()) {
    for (const auto& [name, _] : state) {
      if (std::none_of(own.begin(), own.end(), [&](const auto& o) { return o.first == name; })) {
        raise<ValueError>(
            "[load_state] the state is of another optimizer or model: '{}' is not known here",
            name);
      }
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    for (size_t q = 0; q < quantities_.size(); ++q) {
      copy_elements(state.at(name + "." + quantities_[q]), kept_[i].tensors[q]);
    }
    kept_[i].steps = state.at(name + ".steps").item<int64_t>();
  }
}

}  // namespace capstan::optim
