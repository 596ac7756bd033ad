#include "models/gpt.h"

#include <cmath>

#include "autograd/activations.h"
#include "autograd/arithmetic.h"
#include "autograd/normalization.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan::models {
namespace {

const GptShape& checked(const GptShape& shape) {
  const auto at_least_one = [](const char* name, int64_t value) {
    if (value < 1) raise<ValueError>("[gpt] {} must be 1 or more, got {}", name, value);
  };
  at_least_one("vocabulary", shape.vocabulary);
  at_least_one("context", shape.context);
  at_least_one("layers", shape.layers);
  at_least_one("heads", shape.heads);
  at_least_one("width", shape.width);
  if (shape.rotary && shape.width / shape.heads % 2 != 0) {
    raise<ValueError>("[gpt] rotary positions need heads of an even width, got {} / {}",
                      shape.width, shape.heads);
  }
  if (shape.experts > 0 && shape.swiglu) {
    raise<ValueError>("[gpt] experts are of GELU, not of SwiGLU");
  }
  return shape;
}

/// GPT-2's start; norms stay at 1 and 0.
void initialize(Gpt& model) {
  constexpr double kDeviation = 0.02;
  const double last = kDeviation / std::sqrt(2.0 * static_cast<double>(model.shape.layers));
  for (const auto& [name, parameter] : model.parameters()) {
    if (name.ends_with("bias")) {
      fill_elements(detach(parameter), 0);
    } else if (parameter.rank() == 2) {
      const bool ends_part = name.ends_with(".out.weight") || name.ends_with(".down.weight");
      copy_elements(randn(parameter.shape(), 0, ends_part ? last : kDeviation), detach(parameter));
    }
  }
}

}  // namespace

GptNorm::GptNorm(const GptShape& shape) : weight(ones({shape.width})) {
  if (!shape.rms_norm) bias.emplace(zeros({shape.width}));
}

Tensor GptNorm::forward(const Tensor& x) {
  return bias ? layer_norm(x, weight.shape(), &weight, &*bias)
              : rms_norm(x, weight.shape(), &weight);
}

GptFeedForward::GptFeedForward(const GptShape& shape)
    : up(shape.width, shape.hidden()), down(shape.hidden(), shape.width) {
  if (shape.swiglu) gate.emplace(shape.width, shape.hidden());
}

Tensor GptFeedForward::forward(const Tensor& x) {
  return down(gate ? silu((*gate)(x)) * up(x) : gelu_tanh(up(x)));
}

GptBlock::GptBlock(const GptShape& shape, double dropout)
    : attention_norm(shape),
      attention(shape.width, shape.heads,
                {.groups = shape.groups, .rotary = shape.rotary, .dropout = dropout}),
      feed_forward_norm(shape),
      drop(dropout) {
  if (shape.experts == 0) {
    feed_forward.emplace(shape);
  } else {
    mixture.emplace(shape.width, distributed::MixtureOptions{.experts = shape.experts,
                                                             .chosen = shape.chosen,
                                                             .hidden = shape.hidden(),
                                                             .own_balance = true});
  }
}

Tensor GptBlock::forward(const Tensor& x) {
  const Tensor y = x + drop(attention(attention_norm(x), AttentionOptions{.causal = true}));
  const Tensor z = feed_forward_norm(y);
  return y + drop(mixture ? (*mixture)(z) : (*feed_forward)(z));
}

Gpt::Gpt(const GptShape& given, double dropout)
    : shape(checked(given)),
      tokens(shape.vocabulary, shape.width),
      drop(dropout),
      norm(shape),
      head(shape.width, shape.vocabulary, {.bias = false}) {
  if (!shape.rotary) positions.emplace(shape.context, shape.width);
  for (int64_t i = 0; i < shape.layers; ++i) blocks.emplace_back(shape, dropout);
  nn::tie(tokens.weight, head.weight);
  initialize(*this);
}

Tensor Gpt::embed(const Tensor& indices) {
  if (indices.rank() != 2 || indices.size(1) < 1 || indices.size(1) > shape.context) {
    raise<ShapeError>("[gpt] takes tokens [batch, n] with n from 1 to {}, got {}", shape.context,
                      indices.shape());
  }
  Tensor x = tokens(indices);
  if (positions) x = x + slice(positions->weight, 0, 0, indices.size(1));
  return drop(x);
}

Tensor Gpt::balance() const {
  Tensor sum;
  for (const GptBlock& block : blocks) {
    if (!block.mixture) continue;
    sum = sum.defined() ? sum + block.mixture->balance : block.mixture->balance;
  }
  return sum.defined() ? sum * 0.01 : sum;
}

nn::Layers Gpt::layers() {
  nn::Layers layers;
  layers.emplace_back(
      "embedding", [this](const Tensor& indices) { return embed(indices); },
      std::vector<nn::Module*>{&tokens, positions ? &*positions : nullptr, &drop});
  for (size_t i = 0; i < blocks.size(); ++i) {
    layers.emplace_back(
        fmt::format("blocks.{}", i), [&block = blocks[i]](const Tensor& x) { return block(x); },
        std::vector<nn::Module*>{&blocks[i]});
  }
  layers.emplace_back(
      "head", [this](const Tensor& x) { return head(norm(x)); },
      std::vector<nn::Module*>{&norm, &head});
  return layers;
}

Tensor Gpt::forward(const Tensor& indices) { return nn::forward(layers(), indices); }

}  // namespace capstan::models
