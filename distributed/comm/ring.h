// Defines the ring algorithms: reduce-scatter, all-gather, and all-reduce as the one after the
// other.
//
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", J. Parallel Distrib. Comput. 69 (2009), sections 3 and 4.
#pragma once

#include "distributed/comm/channel.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {

/// Combines the ranks' `in`; afterwards part rank() of `out` holds the result, the other parts of
/// `out` are scratch. `in` and `out` may be the same memory. Sends (n-1)/n of the bytes.
void ring_reduce_scatter(Channel& channel, Reduce op, Dtype dtype, const void* in, void* out,
                         const Parts& parts);

/// Copies part r of rank r's `data` to all ranks. Sends (n-1)/n of the bytes.
void ring_all_gather(Channel& channel, Dtype dtype, void* data, const Parts& parts);

/// Combines the ranks' `data` in place. Sends 2(n-1)/n of the bytes: no algorithm sends fewer.
void ring_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count);

}  // namespace capstan::distributed
