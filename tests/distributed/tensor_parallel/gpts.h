// Defines the small models that these tests train, on one rank and on several.
#pragma once

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/random.h"
#include "distributed/tensor_parallel/tensor_parallel.h"
#include "models/gpt.h"
#include "models/gpt_plan.h"

namespace capstan::distributed {

constexpr int64_t kTokens = 24;  // of a sample: a multiple of 1, 2, 3, 4, 6 and 8

/// 24 heads, so that 1, 2, 3, 4, 6 and 8 ranks can share them; a vocabulary that they cannot share
/// evenly.
inline models::GptShape gpt2() {
  return {.vocabulary = 23, .context = kTokens, .layers = 2, .heads = 24, .width = 24};
}
/// The other kind: rotary positions, which need an even width a head, RMSNorm, SwiGLU. 12 heads.
inline models::GptShape llama() {
  models::GptShape shape = gpt2();
  shape.heads = 12;
  shape.width = 72;
  shape.rotary = shape.rms_norm = shape.swiglu = true;
  return shape;
}

/// The model that any rank makes.
inline models::Gpt make_gpt(const models::GptShape& shape, Dtype dtype, double dropout = 0) {
  manual_seed(7);
  models::Gpt gpt(shape, dropout);
  // Away from the start, where biases are 0 and norms 1.
  for (const auto& [_, parameter] : gpt.parameters()) {
    copy_elements(detach(parameter) + randn(parameter.shape(), 0, 0.1), detach(parameter));
  }
  gpt.to(dtype);
  return gpt;
}

/// Tokens [samples, n] of a step and those that follow.
struct Text {
  Tensor inputs, targets;
};
inline Text text(int64_t step, int64_t samples = 3) {
  Generator generator = Generator(1).fork(step);
  const Tensor tokens = randint({samples, kTokens + 1}, 0, 23, {Dtype::int64}, generator);
  return {slice(tokens, 1, 0, kTokens), slice(tokens, 1, 1, kTokens + 1)};
}

inline Tensor whole_loss(models::Gpt& gpt, const Text& text) {
  return cross_entropy(flatten(gpt(text.inputs), 0, 1), flatten(text.targets));
}

/// The largest difference between tensors of the same names.
inline double difference(const NamedTensors& a, const NamedTensors& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].first == b[i].first);
    REQUIRE(a[i].second.shape() == b[i].second.shape());
    const auto x = a[i].second.to_vector<double>(), y = b[i].second.to_vector<double>();
    for (size_t k = 0; k < x.size(); ++k) {
      // A NaN is no small difference.
      most = std::abs(x[k] - y[k]) <= most ? most : std::abs(x[k] - y[k]);
    }
  }
  return most;
}

inline NamedTensors gradients_of(nn::Module& model) {
  NamedTensors gradients;
  for (const auto& [name, parameter] : model.parameters()) {
    gradients.emplace_back(name, parameter.grad());
  }
  return gradients;
}

}  // namespace capstan::distributed
