// Defines attention over a sequence of which each rank has a part: context parallelism, for
// sequences whose activations fit on no rank (Liu, Zaharia, Abbeel, "Ring attention with blockwise
// transformers for near-infinite context", 2023).
//
// A query needs the keys and values of the whole sequence, but not at once. Ranks stand in a ring;
// each keeps its queries and passes keys and values on to the next rank, so that after as many
// steps as there are ranks every query has met every key. While a rank computes with one block, the
// next is on its way. What a step gives is attention to that block alone: a weighted mean o of
// values, and the logarithm l of the sum of its weights. Two such are merged as if they had been
// one (the online softmax of Milakov, Gimelshein, 2018):
//
//   l = log(exp(l1) + exp(l2))        o = exp(l1 - l) o1 + exp(l2 - l) o2
//
// Backward goes round once more. With the final o and l the weights of any block can be made again,
// so each step gives its part of the gradients; those of keys and values travel with them, gather
// what every rank adds, and come home after a whole turn. Memory is that of a rank's own part. With
// K bytes of keys and values a rank sends (n - 1) K forward, and (n - 1) K + n K backward.
//
// With causal attention a rank with early queries has little to do with late keys:
//
//   blocks    rank r has block r of n: rank 0 computes one block, the last one n
//   zigzag    rank r has the blocks r and 2 n - 1 - r of 2 n, an early one and a late one, so that
//             all ranks have the same work in every step (Dubey et al., "The Llama 3 herd of
//             models", 2024, section 3.3.2)
//
// Dropout drops weights after the softmax, and l is of all weights, so each block can drop its own
// part of what one rank would have dropped of the whole matrix (core/part.h).
//
// A loss here is the sum (or under Ddp the weighted mean) of the ranks' losses over their own
// parts, as in distributed/differentiable.h.
#pragma once

#include <optional>

#include "core/part.h"
#include "core/random.h"
#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// Which parts of a sequence ranks have.
enum class SequenceCut { blocks, zigzag };

/// Which blocks of a sequence, axis `axis`, a rank has.
AxisPart part_of_sequence(int64_t axis, SequenceCut cut, int rank, int ranks);

/// The places of a sequence of n that a rank has, in the order in which it has them: int64 [n /
/// ranks], for index_select(), and to turn queries and keys by. Throws ShapeError unless the ranks,
/// or twice as many with zigzag, divide n.
Tensor sequence_places(int64_t n, SequenceCut cut, int rank, int ranks);

struct RingAttentionOptions {
  bool causal = false;
  SequenceCut cut = SequenceCut::blocks;
  std::optional<double> scale = {};  // 1 / sqrt(d) unless given
  double dropout = 0;                // of weights, as in AttentionOptions
  AxisParts parts = {};              // likewise, of other axes than the sequence's
};

/// scaled_dot_product_attention() of the whole sequence for this rank's queries, out of its q
/// [batch, heads, m, d], k [batch, groups, m, d] and v [batch, groups, m, e], all parts of one
/// sequence cut alike: [batch, heads, m, e]. A collective, forward and backward. In 16 bits it
/// computes and sends in float32. Ranks must have equal generators. Throws as
/// scaled_dot_product_attention() does, ShapeError for an odd m with zigzag, CommError if the
/// ranks' parts differ in size, GradientError for a gradient of the gradient, and ValueError unless
/// 0 <= dropout < 1. On Device::meta() it gives shapes and sends nothing.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, Communicator& ranks,
                      const RingAttentionOptions& options = {},
                      Generator& generator = default_generator());

}  // namespace capstan::distributed
