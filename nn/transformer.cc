#include "nn/transformer.h"

#include "autograd/arithmetic.h"

namespace capstan::nn {

namespace {

/// x with what `part` adds, normalised before or after.
template <class Part>
Tensor residual(const Tensor& x, LayerNorm& norm, Dropout& dropout, bool norm_first,
                const Part& part) {
  if (norm_first) return x + dropout(part(norm(x)));
  return norm(x + dropout(part(x)));
}

/// The layer's attention drops what the layer does, unless told otherwise.
MultiheadOptions attention_options(const TransformerOptions& options) {
  MultiheadOptions attention = options.attention;
  attention.dropout = attention.dropout.value_or(options.dropout);
  return attention;
}

/// The memory has positions of its own.
MultiheadOptions memory_options(const TransformerOptions& options) {
  MultiheadOptions attention = attention_options(options);
  attention.rotary = false;
  return attention;
}

}  // namespace

FeedForward::FeedForward(int64_t width, const TransformerOptions& options)
    : up(width, options.hidden),
      down(options.hidden, width),
      dropout(options.dropout),
      gelu(options.gelu) {}

Tensor FeedForward::forward(const Tensor& x) {
  const Tensor h = up(x);
  return down(dropout(gelu ? capstan::gelu(h) : relu(h)));
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t width, int64_t heads,
                                                 const TransformerOptions& options)
    : attention(width, heads, attention_options(options)),
      feed_forward(width, options),
      attention_norm(width),
      feed_forward_norm(width),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionOptions& options) {
  const Tensor y = residual(x, attention_norm, dropout, norm_first,
                            [&](const Tensor& x) { return attention(x, options); });
  return residual(y, feed_forward_norm, dropout, norm_first,
                  [&](const Tensor& x) { return feed_forward(x); });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t width, int64_t heads,
                                                 const TransformerOptions& options)
    : attention(width, heads, attention_options(options)),
      memory_attention(width, heads, memory_options(options)),
      feed_forward(width, options),
      attention_norm(width),
      memory_norm(width),
      feed_forward_norm(width),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory,
                                        const AttentionOptions& to_memory) {
  const AttentionOptions causal{.causal = true};
  const Tensor y = residual(x, attention_norm, dropout, norm_first,
                            [&](const Tensor& x) { return attention(x, causal); });
  const Tensor z = residual(y, memory_norm, dropout, norm_first, [&](const Tensor& x) {
    return memory_attention(x, memory, to_memory);
  });
  return residual(z, feed_forward_norm, dropout, norm_first,
                  [&](const Tensor& x) { return feed_forward(x); });
}

}  // namespace capstan::nn
