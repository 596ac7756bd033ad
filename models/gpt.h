// Defines Gpt, a decoder-only Transformer in the layout of GPT-2 (Radford et al., "Language models
// are unsupervised multitask learners", 2019): learned positions, normalisation before each part of
// a block, GELU, and one table of token vectors at both ends.
//
//   tokens -> vectors + positions -> blocks -> norm -> vectors' products with the table -> logits
//
// Options make it a model of LLaMA's kind (Touvron et al., "LLaMA: open and efficient foundation
// language models", 2023): rotary positions, RMSNorm, SwiGLU, grouped queries. With `experts`, each
// feed-forward part is a mixture of them.
#pragma once

#include "distributed/expert_parallel/mixture_of_experts.h"
#include "nn/attention.h"
#include "nn/chain.h"
#include "nn/embedding.h"
#include "nn/layers.h"

namespace capstan::models {

struct GptShape {
  int64_t vocabulary = 256;
  int64_t context = 128;  // the most tokens seen at a time
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;

  bool rotary = false;    // in place of learned positions
  bool rms_norm = false;  // in place of LayerNorm
  bool swiglu = false;    // in place of GELU
  int64_t groups = 0;     // heads of keys and values; 0: all heads
  int64_t experts = 0;    // feed-forward parts of each block; 0: one, that all tokens pass
  int64_t chosen = 2;     // experts that take each token

  /// Of the feed-forward part: 4 width; with SwiGLU, which has three matrices and not two, 8/3
  /// width, rounded up to a multiple of 8.
  int64_t hidden() const { return swiglu ? (8 * width + 23) / 24 * 8 : 4 * width; }
};

/// LayerNorm, or RMSNorm, which has no bias, over the last axis.
struct GptNorm : nn::Module {
  explicit GptNorm(const GptShape& shape);

  nn::Parameter weight;
  std::optional<nn::Parameter> bias;
  CAPSTAN_MODULE(GptNorm, weight, bias)

  Tensor forward(const Tensor& x);
};

/// x [..., width] to the same shape: down(gelu(up(x))), or down(silu(gate(x)) * up(x)) (SwiGLU:
/// Shazeer, "GLU variants improve Transformer", 2020).
struct GptFeedForward : nn::Module {
  explicit GptFeedForward(const GptShape& shape);

  std::optional<nn::Linear> gate;
  nn::Linear up, down;
  CAPSTAN_MODULE(GptFeedForward, gate, up, down)

  Tensor forward(const Tensor& x);
};

/// x [batch, n, width] to the same shape: causal self-attention, then the feed-forward part; each
/// adds to what came in.
struct GptBlock : nn::Module {
  GptBlock(const GptShape& shape, double dropout);

  GptNorm attention_norm;
  nn::MultiheadAttention attention;
  GptNorm feed_forward_norm;
  std::optional<GptFeedForward> feed_forward;
  std::optional<distributed::MixtureOfExperts> mixture;  // in its place
  nn::Dropout drop;
  CAPSTAN_MODULE(GptBlock, attention_norm, attention, feed_forward_norm, feed_forward, mixture,
                 drop)

  Tensor forward(const Tensor& x);
};

/// Tokens int64 [batch, n], n at most `context`, to logits [batch, n, vocabulary] of the tokens
/// that follow. GPT-2's small model, {50257, 1024, 12, 12, 768}, has 124,439,808 parameters.
struct Gpt : nn::Module {
  /// `dropout` is of embeddings, of attention and of what each part of a block adds. Weights start
  /// as GPT-2's: normal with deviation 0.02, those of the last layer of each part divided by
  /// sqrt(2 layers), biases 0. Throws ValueError for sizes below 1, heads that do not divide the
  /// width (or, with rotary positions, not into even parts), groups that do not divide the heads,
  /// a dropout outside [0, 1), and experts as MixtureOfExperts does, or with SwiGLU.
  explicit Gpt(const GptShape& shape, double dropout = 0);

  GptShape shape;
  nn::Embedding tokens;
  std::optional<nn::Embedding> positions;
  nn::Dropout drop;
  nn::ModuleList<GptBlock> blocks;
  GptNorm norm;
  nn::Linear head;  // its weight is the table of `tokens`
  CAPSTAN_MODULE(Gpt, tokens, positions, drop, blocks, norm, head)

  /// Throws ShapeError for anything but [batch, n] with n from 1 to `context`; ValueError for a
  /// token outside the vocabulary.
  Tensor forward(const Tensor& indices);
  /// Of the last call: what keeps the experts in use, for the loss of a batch; a hundredth of the
  /// sum of the mixtures' (Fedus et al., section 2.2). Undefined without experts.
  Tensor balance() const;
  /// "embedding", "blocks.0" and so on, "head".
  nn::Layers layers();

 private:
  Tensor embed(const Tensor& indices);
};

}  // namespace capstan::models
