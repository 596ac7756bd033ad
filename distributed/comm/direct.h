// Defines the direct algorithms, in which data goes straight from its owner to whoever needs it:
// gather, scatter, all-to-all, and the barrier.
#pragma once

#include "distributed/comm/channel.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {

/// Joins the ranks' `mine` [bytes] into the root's `all` [n * bytes]; `all` is unused elsewhere.
/// The root receives (n-1) * bytes, the least possible, in n-1 steps.
void direct_gather(Channel& channel, int root, const void* mine, void* all, int64_t bytes);

/// Hands the parts of the root's `all` [n * bytes] out to the ranks' `mine` [bytes].
void direct_scatter(Channel& channel, int root, const void* all, void* mine, int64_t bytes);

/// Part r of `out` goes to part rank() of rank r's `in`, which must be as long. In step k each rank
/// sends to the rank k places to its right, so that no rank is sent to by two at once.
void direct_all_to_all(Channel& channel, Dtype dtype, const void* out, const Parts& sent, void* in,
                       const Parts& received);

/// Returns once all ranks have called it. Dissemination: in step k, rank r tells rank r + 2^k that
/// it (and all that it has heard of) are here; after log2(n) steps everyone has heard of everyone.
/// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization" (1988).
void dissemination_barrier(Channel& channel);

}  // namespace capstan::distributed
