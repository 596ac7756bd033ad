// Defines check_replicas(), which compares what should be equal on all ranks.
//
// Ranks that take the same steps from the same start stay equal to the bit, so a single bit of
// difference is a fault: a weight that one rank changed, an optimizer with other options, memory
// that failed. It grows silently, since averaged gradients still look well; this finds it.
#pragma once

#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// Throws SharedError on every rank unless all have the same elements in each of `tensors`, which
/// are alike in name and order. The text names the first that differs, and which ranks have what. A
/// collective that sends 8 bytes a tensor: hashes.
void check_replicas(const NamedTensors& tensors, Communicator& communicator);

}  // namespace capstan::distributed
