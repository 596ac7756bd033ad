#include "nn/state.h"

#include "core/raise.h"

namespace capstan::nn {

NamedTensors state_dict(Module& module) {
  NamedTensors state = module.parameters();
  for (const auto& [name, buffer] : module.buffers()) {
    if (buffer.policy != BufferPolicy::local) state.emplace_back(name, buffer);
  }
  return state;
}

void load_state_dict(Module& module, const std::map<std::string, Tensor>& state) {
  const NamedTensors own = state_dict(module);
  std::string missing, foreign;
  for (const auto& [name, _] : own) {
    if (!state.contains(name)) missing += " " + name;
  }
  for (const auto& [name, _] : state) {
    const auto is_it = [&](const auto& entry) { return entry.first == name; };
    if (std::none_of(own.begin(), own.end(), is_it)) foreign += " " + name;
  }
  if (!missing.empty() || !foreign.empty()) {
    raise<ValueError>(
        "[load_state_dict] the state is of another model: missing{}; not in the model{}",
        missing.empty() ? " none" : missing, foreign.empty() ? " none" : foreign);
  }
  for (const auto& [name, tensor] : own) {
    const Tensor& value = state.at(name);
    if (value.shape() != tensor.shape()) {
      raise<ShapeError>("[load_state_dict] {} is {} in the model and {} in the state", name,
                        tensor.shape(), value.shape());
    }
    if (value.dtype() != tensor.dtype()) {
      raise<DtypeError>("[load_state_dict] {} is {} in the model and {} in the state", name,
                        tensor.dtype(), value.dtype());
    }
    if (value.device().kind == Device::Kind::meta && !(tensor.device() == value.device())) {
      raise<DeviceError>("[load_state_dict] {} has no elements: it is on meta in the state", name);
    }
  }
  for (const auto& [name, tensor] : own) copy_elements(state.at(name), tensor);
}

}  // namespace capstan::nn
