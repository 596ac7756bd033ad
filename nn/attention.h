// Defines MultiheadAttention (Vaswani et al., "Attention is all you need", NeurIPS 2017, section
// 3.2.2).
#pragma once

#include <functional>

#include "autograd/attention.h"
#include "nn/linear.h"

namespace capstan::nn {

struct MultiheadOptions {
  int64_t groups = 0;   // heads of keys and values, each for heads / groups queries; 0: all heads
  bool bias = true;     // in the four projections
  bool rotary = false;  // turns queries and keys by their positions
  double base = 10000;  // of the rotation
  /// Of the weights, in training. Unless given: none, or in a layer of a Transformer that layer's.
  std::optional<double> dropout = {};
};

/// Attention of `heads` heads on vectors of size `width`, which the heads share out evenly. Throws
/// ValueError for numbers that do not divide so, for a dropout outside [0, 1), and for a call that
/// brings one of its own.
struct MultiheadAttention : Module {
  MultiheadAttention(int64_t width, int64_t heads, MultiheadOptions options = {});

  int64_t heads, groups;  // a rank that has some of the heads only has as much of the projections
  MultiheadOptions options;
  Linear query, key, value, out;
  double dropout;
  AxisParts parts;  // of the weights, as in AttentionOptions, where ranks share the heads
  CAPSTAN_MODULE(MultiheadAttention, query, key, value, out)

  /// Where it is set, this takes the place of scaled_dot_product_attention(), with q [batch, heads,
  /// m, d], k and v [batch, groups, n, d] that are not turned by their positions: ranks may have
  /// parts of a sequence.
  std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions&)>
      attend;

  /// Self-attention of x [batch, n, width]: the same shape.
  Tensor forward(const Tensor& x, const AttentionOptions& attention = {});
  /// x [batch, m, width] asks, memory [batch, n, width] answers: [batch, m, width].
  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionOptions& attention = {});
};

}  // namespace capstan::nn
