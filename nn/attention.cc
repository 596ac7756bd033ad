#include "nn/attention.h"

#include "autograd/views.h"
#include "core/raise.h"
#include "nn/layers.h"

namespace capstan::nn {

namespace {

int64_t head_size(int64_t width, int64_t heads, int64_t groups) {
  if (heads < 1 || groups < 1 || width < 1 || width % heads != 0 || heads % groups != 0) {
    raise<ValueError>(
        "[multihead_attention] heads must divide the width and groups the heads, got {}, {} and {}",
        width, heads, groups);
  }
  return width / heads;
}

/// [batch, n, heads * size] to [batch, heads, n, size].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), 1, 2);
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t width, int64_t heads, MultiheadOptions options)
    : heads(heads),
      groups(options.groups ? options.groups : heads),
      options(options),
      query(width, width, {.bias = options.bias}),
      key(width, groups * head_size(width, heads, groups), {.bias = options.bias}),
      value(width, groups * head_size(width, heads, groups), {.bias = options.bias}),
      out(width, width, {.bias = options.bias}),
      dropout(Dropout(options.dropout.value_or(0)).p) {}

Tensor MultiheadAttention::forward(const Tensor& x, const AttentionOptions& attention) {
  return forward(x, x, attention);
}

Tensor MultiheadAttention::forward(const Tensor& x, const Tensor& memory,
                                   const AttentionOptions& attention) {
  if (x.rank() != 3 || memory.rank() != 3) {
    raise<ShapeError>("[multihead_attention] takes [batch, n, width], got {} and {}", x.shape(),
                      memory.shape());
  }
  if (attention.dropout != 0) {
    raise<ValueError>("[multihead_attention] dropout is the layer's, not the call's, got {}",
                      attention.dropout);
  }
  Tensor q = split_heads(query(x), heads), k = split_heads(key(memory), groups);
  const Tensor v = split_heads(value(memory), groups);
  AttentionOptions rules = attention;
  rules.dropout = training() ? dropout : 0;
  rules.parts = parts;
  const auto joined = [this](const Tensor& y) { return out(flatten(transpose(y, 1, 2), 2, 3)); };
  if (attend) return joined(attend(q, k, v, rules));
  if (options.rotary) {
    // Causal queries are the last of the keys' positions, others start where the keys do.
    const int64_t first = attention.causal ? k.size(2) - q.size(2) : 0;
    q = rotary_embedding(q, {.offset = first, .base = options.base});
    k = rotary_embedding(k, {.base = options.base});
  }
  return joined(scaled_dot_product_attention(q, k, v, rules));
}

}  // namespace capstan::nn
