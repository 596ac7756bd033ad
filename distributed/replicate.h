// Defines replicate(), with which all ranks come to have rank 0's numbers: a model that begins, an
// optimizer that goes on.
#pragma once

#include <string_view>

#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// Copies the elements of rank 0's tensors into those of the other ranks, once it is seen that all
/// ranks have the same by name, shape, dtype and whether it is trained. A collective; throws
/// CommError on every rank, with `what` in the text, if they differ.
void replicate(const NamedTensors& tensors, Communicator& communicator, std::string_view what);

}  // namespace capstan::distributed
