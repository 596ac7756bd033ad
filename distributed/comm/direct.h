// Defines the direct algorithms, in which data goes straight from its owner to whoever needs it:
// gather, scatter, all-to-all, a reduce-scatter in the order of a tree, and the barrier.
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

/// Combines the ranks' `in` and leaves part rank() of the result in `mine`, which may be its own
/// place in `in`. Every rank sends each part to the rank that it belongs to, which combines what
/// comes as a balanced binary tree (blocks.h): so a sum over 2^k ranks is the upper part of the
/// same tree over finer leaves. Sends (n-1)/n of the bytes, as a ring does, in n-1 steps; but
/// between hosts all ranks' bytes cross the link, a ring's only once.
void direct_reduce_scatter(Channel& channel, Reduce op, Dtype dtype, const void* in, void* mine,
                           const Parts& parts);

/// Returns once all ranks have called it. Dissemination: in step k, rank r tells rank r + 2^k that
/// it (and all that it has heard of) are here; after log2(n) steps everyone has heard of everyone.
/// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization" (1988).
void dissemination_barrier(Channel& channel);

}  // namespace capstan::distributed
