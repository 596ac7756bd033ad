// Defines the recursive halving and doubling algorithm for all-reduce.
//
// Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; with the
// nearest rank first, so that the order of sums is a balanced tree.
#pragma once

#include "distributed/comm/channel.h"

namespace capstan::distributed {

/// Combines the ranks' `data` in place. Sends 2(n-1)/n of the bytes in 2 log2(n) steps if n is a
/// power of two; else 2(p-1)/p of them in 2 log2(p) steps for the largest power p below n, and all
/// of them once more on 2(n-p) ranks, in two more steps.
void halving_doubling_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data,
                                 int64_t count);

}  // namespace capstan::distributed
