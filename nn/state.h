// Defines the state dict of a model: its parameters and buffers under their own names.
#pragma once

#include <map>

#include "nn/module.h"

namespace capstan::nn {

/// Parameters, then buffers that are not local, under the model's names. The tensors are the
/// model's own, not copies.
NamedTensors state_dict(Module& module);

/// Copies `state` into the model. Nothing is changed unless everything fits: throws ValueError
/// naming the tensors that are missing or not the model's, ShapeError or DtypeError for one that
/// differs, DeviceError for one without elements.
void load_state_dict(Module& module, const std::map<std::string, Tensor>& state);

}  // namespace capstan::nn
