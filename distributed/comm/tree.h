// Defines the binomial-tree algorithms: broadcast from a root, and reduce towards one.
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), sections 4 and 5.
#pragma once

#include "distributed/comm/channel.h"

namespace capstan::distributed {

/// Copies the root's bytes to all ranks. log2(n) steps.
void tree_broadcast(Channel& channel, int root, void* data, int64_t bytes);

/// Combines the ranks' `data` into the root's; the other ranks' stay as they are. log2(n) steps.
void tree_reduce(Channel& channel, Reduce op, Dtype dtype, int root, void* data, int64_t count);

}  // namespace capstan::distributed
