// Defines ContextParallel, with which a model works on a part of each sequence on every rank.
//
// Ring attention (ring_attention.h) is all that a transformer's ranks have to say to each other in
// a pass: every other layer works on each token by itself. So ranks have the same weights, and the
// model's source stays as it is. Tokens are embedded whole on every rank, since positions count
// from the first; then each rank goes on with its own, and its logits and loss are of these:
//
//   ContextParallel context(gpt, {.attention = "blocks.*.attention", .start = "drop"}, ranks);
//   Ddp ddp(gpt, ranks);
//   ddp.backward(cross_entropy(gpt(tokens), context.part(targets)));
//
// Dropout drops what it would of the whole sequence, where ranks have equal generators: attention,
// and the Dropout layers from `start` on, in the order of the model's modules, are told which part
// they get (core/part.h).
//
// Gradients are averaged as under data parallelism, of which this is a kind: other tokens on each
// rank. With parts of equal sizes the mean of the ranks' mean losses is that of the sequence.
#pragma once

#include <string>
#include <vector>

#include "distributed/context_parallel/ring_attention.h"
#include "nn/attention.h"
#include "nn/layers.h"

namespace capstan::distributed {

struct ContextOptions {
  std::string attention;  // name or pattern (NamePatterns) of the MultiheadAttention modules
  std::string start;      // the module before which sequences, axis 1 of its input, are cut
  SequenceCut cut = SequenceCut::zigzag;
};

class ContextParallel {
 public:
  /// Model and ranks must outlive this, and this all calls of the model. Throws on every rank:
  /// SharedError if the options differ; ValueError for names that fit no module, an attention that
  /// is no MultiheadAttention. In a call, such an attention throws ValueError for a mask, and a
  /// sequence that cannot be cut ShapeError.
  ContextParallel(nn::Module& model, const ContextOptions& options, Communicator& ranks);
  ~ContextParallel();
  ContextParallel(const ContextParallel&) = delete;
  ContextParallel& operator=(const ContextParallel&) = delete;

  /// This rank's part of x [batch, n, ...]: targets, say.
  Tensor part(const Tensor& x) const;
  /// The other way round, on every rank: for evaluation, or to write text. Not recorded. A
  /// collective.
  Tensor joined(const Tensor& part) const;

 private:
  Communicator& ranks_;
  const SequenceCut cut_;
  std::vector<nn::MultiheadAttention*> attentions_;
  std::shared_ptr<const AxisParts> dropped_;  // what Dropout layers drop
  std::vector<nn::Dropout*> dropouts_;
  HookHandle start_;
};

}  // namespace capstan::distributed
