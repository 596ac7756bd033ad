// Defines check_state() and copy_state(), with which everything that can be saved is loaded again:
// models, optimizers, averages.
#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace capstan {

/// Throws unless `state` can be copied into `own`: ValueError naming the tensors that are missing
/// or foreign, ShapeError or DtypeError for one that differs, DeviceError for one without elements.
/// Messages start with [operation] and call the owner `owner` ("model").
void check_state(const char* operation, const char* owner, const NamedTensors& own,
                 const std::map<std::string, Tensor>& state);

/// Copies the elements of `state` into the tensors of the same names. Nothing is changed unless
/// everything fits: throws as check_state() does.
void copy_state(const char* operation, const char* owner, const NamedTensors& own,
                const std::map<std::string, Tensor>& state);

}  // namespace capstan
