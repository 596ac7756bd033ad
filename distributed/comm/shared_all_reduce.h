// Defines all-reduce through memory that all ranks share, for tensors that lie in it and for those
// that do not.
#pragma once

#include "distributed/comm/channel.h"

namespace capstan::distributed {

/// Combines the ranks' elements [offset, offset + count) of `memory` in place. Moves each element
/// the least times: read once on each rank, written once on each rank. Counts 2(n-1)/n of the bytes
/// as sent, as a ring would.
void shared_all_reduce(Channel& channel, Reduce op, Dtype dtype, const SharedMemory& memory,
                       int64_t offset, int64_t count);

/// Combines the ranks' `data`, which lies anywhere, in place. Counts 2(n-1)/n of the bytes as sent;
/// n-1 times the bytes if there are few.
void staged_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count);

}  // namespace capstan::distributed
