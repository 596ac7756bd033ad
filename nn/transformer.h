// Defines the layers of a Transformer (Vaswani et al., "Attention is all you need", NeurIPS 2017,
// section 3.1). Each part of a layer adds to its input:
//
//   x + part(norm(x))      norm_first (Xiong et al., "On layer normalization", ICML 2020), or
//   norm(x + part(x))      as in the paper, and by default
#pragma once

#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/normalization.h"

namespace capstan::nn {

struct TransformerOptions {
  int64_t hidden = 2048;  // width of the feed-forward part
  double dropout = 0.1;   // of what each part adds, inside the feed-forward part and of attention
  bool norm_first = false;
  bool gelu = false;  // in place of relu
  MultiheadOptions attention = {};
};

/// x [..., width] to the same shape, by way of `hidden` features.
struct FeedForward : Module {
  FeedForward(int64_t width, const TransformerOptions& options);

  Linear up, down;
  Dropout dropout;
  bool gelu;
  CAPSTAN_MODULE(FeedForward, up, down, dropout)

  Tensor forward(const Tensor& x);
};

/// x [batch, n, width] to the same shape: self-attention, then the feed-forward part.
struct TransformerEncoderLayer : Module {
  TransformerEncoderLayer(int64_t width, int64_t heads, const TransformerOptions& options = {});

  MultiheadAttention attention;
  FeedForward feed_forward;
  LayerNorm attention_norm, feed_forward_norm;
  Dropout dropout;
  bool norm_first;
  CAPSTAN_MODULE(TransformerEncoderLayer, attention, feed_forward, attention_norm,
                 feed_forward_norm, dropout)

  Tensor forward(const Tensor& x, const AttentionOptions& options = {});
};

/// x [batch, m, width] and memory [batch, n, width] to the shape of x: causal self-attention,
/// attention to the memory, then the feed-forward part.
struct TransformerDecoderLayer : Module {
  TransformerDecoderLayer(int64_t width, int64_t heads, const TransformerOptions& options = {});

  MultiheadAttention attention, memory_attention;
  FeedForward feed_forward;
  LayerNorm attention_norm, memory_norm, feed_forward_norm;
  Dropout dropout;
  bool norm_first;
  CAPSTAN_MODULE(TransformerDecoderLayer, attention, memory_attention, feed_forward, attention_norm,
                 memory_norm, feed_forward_norm, dropout)

  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionOptions& to_memory = {});
};

}  // namespace capstan::nn
