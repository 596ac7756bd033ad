#include "nn/state.h"

#include "core/state.h"

namespace capstan::nn {

NamedTensors state_dict(Module& module) {
  NamedTensors state = module.parameters();
  for (const auto& [name, buffer] : module.buffers()) {
    if (buffer.policy != BufferPolicy::local) state.emplace_back(name, buffer);
  }
  return state;
}

void load_state_dict(Module& module, const std::map<std::string, Tensor>& state) {
  copy_state("load_state_dict", "model", state_dict(module), state);
}

}  // namespace capstan::nn
