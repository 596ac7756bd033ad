// Defines the hierarchical all-reduce: through shared memory within a host, a ring across hosts.
#pragma once

#include "distributed/comm/channel.h"

namespace capstan::distributed {

/// Combines the ranks' `data` in place. With H hosts of m ranks each, 2(H-1)/H of the bytes leave
/// each host, as many ranks sending an m-th of them each, in 2(H-1) steps; the rest moves in
/// memory. Where hosts have different numbers of ranks, m is the least of them.
void hierarchical_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count);

}  // namespace capstan::distributed
