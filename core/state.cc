#include "core/state.h"

#include <set>

#include "core/raise.h"

namespace capstan {

void check_state(const char* operation, const char* owner, const NamedTensors& own,
                 const std::map<std::string, Tensor>& state) {
  std::string missing, foreign;
  std::set<std::string> names;
  for (const auto& [name, _] : own) {
    names.insert(name);
    if (!state.contains(name)) missing += " " + name;
  }
  for (const auto& [name, _] : state) {
    if (!names.contains(name)) foreign += " " + name;
  }
  if (!missing.empty() || !foreign.empty()) {
    raise<ValueError>("[{}] the state is of another {}: missing{}; not in the {}{}", operation,
                      owner, missing.empty() ? " none" : missing, owner,
                      foreign.empty() ? " none" : foreign);
  }
  for (const auto& [name, tensor] : own) {
    const Tensor& value = state.at(name);
    if (value.shape() != tensor.shape()) {
      raise<ShapeError>("[{}] {} is {} in the {} and {} in the state", operation, name,
                        tensor.shape(), owner, value.shape());
    }
    if (value.dtype() != tensor.dtype()) {
      raise<DtypeError>("[{}] {} is {} in the {} and {} in the state", operation, name,
                        tensor.dtype(), owner, value.dtype());
    }
    if (value.device().kind == Device::Kind::meta && !(tensor.device() == value.device())) {
      raise<DeviceError>("[{}] {} has no elements: it is on meta in the state", operation, name);
    }
  }
}

void copy_state(const char* operation, const char* owner, const NamedTensors& own,
                const std::map<std::string, Tensor>& state) {
  check_state(operation, owner, own, state);
  for (const auto& [name, tensor] : own) copy_elements(state.at(name), tensor);
}

}  // namespace capstan
