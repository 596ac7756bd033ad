// The model against PyTorch, its names and numbers, and what it refuses.
#include "models/gpt.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/nn/reference.h"

using namespace capstan;
using models::Gpt;
using models::GptShape;

namespace {

constexpr GptShape kSmall{.vocabulary = 11, .context = 6, .layers = 2, .heads = 4, .width = 8};

Tensor some_tokens(int64_t rows, int64_t columns) { return randint({rows, columns}, 0, 11); }

double deviation(const Tensor& x) {
  double sum = 0;
  for (double value : x.to_vector<double>()) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.numel()));
}

}  // namespace

TEST_CASE("forward and backward are PyTorch's, in every variant") {
  const auto compare = [](const std::string& name, const GptShape& shape) {
    const auto forward = [](Gpt& net, const auto& x) { return net(x[0]); };
    nn::compare_with_pytorch(Gpt(shape), name, forward, "gpt");
  };
  compare("gpt2", kSmall);
  GptShape shape = kSmall;
  shape.rotary = true;
  compare("rotary", shape);
  shape = kSmall;
  shape.rms_norm = true;
  compare("rms_norm", shape);
  shape = kSmall;
  shape.swiglu = true;
  CHECK(shape.hidden() == 24);
  compare("swiglu", shape);
  shape = kSmall;
  shape.groups = 2;
  compare("grouped", shape);
  shape = {11, 6, 2, 4, 8, true, true, true, 1};
  compare("llama", shape);
}

TEST_CASE("names, and one parameter for both ends") {
  Gpt gpt({.vocabulary = 5, .context = 3, .layers = 1, .heads = 1, .width = 2});
  std::vector<std::string> names;
  for (const auto& [name, _] : gpt.parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"tokens.weight",
                                          "positions.weight",
                                          "blocks.0.attention_norm.weight",
                                          "blocks.0.attention_norm.bias",
                                          "blocks.0.attention.query.weight",
                                          "blocks.0.attention.query.bias",
                                          "blocks.0.attention.key.weight",
                                          "blocks.0.attention.key.bias",
                                          "blocks.0.attention.value.weight",
                                          "blocks.0.attention.value.bias",
                                          "blocks.0.attention.out.weight",
                                          "blocks.0.attention.out.bias",
                                          "blocks.0.feed_forward_norm.weight",
                                          "blocks.0.feed_forward_norm.bias",
                                          "blocks.0.feed_forward.up.weight",
                                          "blocks.0.feed_forward.up.bias",
                                          "blocks.0.feed_forward.down.weight",
                                          "blocks.0.feed_forward.down.bias",
                                          "norm.weight",
                                          "norm.bias"});
  CHECK(gpt.head.weight.same(gpt.tokens.weight));
  Gpt copy = gpt.clone();
  CHECK(copy.head.weight.same(copy.tokens.weight));
  CHECK_FALSE(copy.head.weight.same(gpt.head.weight));
}

TEST_CASE("GPT-2's small model has 124,439,808 parameters") {
  // Its blocks are equal, so one of them on real memory stands for all twelve.
  GptShape shape{.vocabulary = 50257, .context = 1024, .layers = 1, .heads = 12, .width = 768};
  Gpt gpt(shape);
  gpt.to(Device::meta());
  for (int64_t i = 1; i < 12; ++i) gpt.blocks.push_back(gpt.blocks[0].clone());
  CHECK(gpt.parameter_count() == 124'439'808);
  const Tensor tokens = empty({2, 1024}, {Dtype::int64, Device::meta()});
  const Tensor logits = gpt(tokens);
  CHECK(logits.shape() == Shape{2, 1024, 50257});
  CHECK(logits.device() == Device::meta());
}

TEST_CASE("weights start as GPT-2's") {
  manual_seed(1);
  Gpt gpt({.vocabulary = 300, .context = 200, .layers = 8, .heads = 2, .width = 64});
  for (const auto& [name, parameter] : gpt.parameters()) {
    CAPTURE(name);
    double expected = 0.02;
    if (name.ends_with("bias")) expected = 0;
    if (name.ends_with("norm.weight")) expected = 1;
    if (name.ends_with("out.weight") || name.ends_with("down.weight")) expected = 0.02 / 4;
    CHECK(deviation(parameter) == doctest::Approx(expected).epsilon(0.05));
  }
}

TEST_CASE("a place sees what came before it, and nothing after") {
  for (const bool rotary : {false, true}) {
    GptShape shape = kSmall;
    shape.rotary = rotary;
    manual_seed(2);
    Gpt gpt(shape);
    const Tensor tokens = some_tokens(1, 6);
    const auto before = gpt(tokens).to_vector<float>();
    Tensor changed = dense_copy(tokens);
    int64_t& token = changed.mutable_data<int64_t>()[3];
    token = (token + 1) % 11;
    const auto after = gpt(changed).to_vector<float>();
    for (size_t i = 0; i < before.size(); ++i) {
      const bool seen = i / 11 >= 3;
      CAPTURE(i);
      CHECK((before[i] != after[i]) == seen);
    }
  }
}

TEST_CASE("dropout drops in training only") {
  manual_seed(3);
  Gpt gpt(kSmall, 0.5);
  const Tensor tokens = some_tokens(2, 6);
  CHECK(gpt(tokens).to_vector<float>() != gpt(tokens).to_vector<float>());
  gpt.eval();
  CHECK(gpt(tokens).to_vector<float>() == gpt(tokens).to_vector<float>());
}

TEST_CASE("shapes and sizes that make no sense are refused") {
  Gpt gpt(kSmall);
  CHECK(gpt(some_tokens(0, 6)).shape() == Shape{0, 6, 11});
  for (const Shape& shape : {Shape{2, 7}, {2, 0}, {6}, {1, 2, 3}}) {
    CHECK_THROWS_WITH_AS(gpt(zeros(shape, {.dtype = Dtype::int64})),
                         doctest::Contains("[gpt] takes tokens [batch, n] with n from 1 to 6"),
                         ShapeError);
  }
  CHECK_THROWS_AS(gpt(full({1, 2}, 11, {.dtype = Dtype::int64})), ValueError);

  const auto refuse = [](auto change, const char* text) {
    GptShape shape = kSmall;
    change(shape);
    CHECK_THROWS_WITH_AS(Gpt{shape}, doctest::Contains(text), ValueError);
  };
  refuse([](auto& s) { s.vocabulary = 0; }, "[gpt] vocabulary must be 1 or more, got 0");
  refuse([](auto& s) { s.context = -1; }, "[gpt] context must be 1 or more, got -1");
  refuse([](auto& s) { s.layers = 0; }, "[gpt] layers must be 1 or more, got 0");
  refuse([](auto& s) { s.heads = 0; }, "[gpt] heads must be 1 or more, got 0");
  refuse([](auto& s) { s.width = 0; }, "[gpt] width must be 1 or more, got 0");
  refuse([](auto& s) { s.heads = 3; }, "heads must divide the width");
  refuse([](auto& s) { s.groups = 3; }, "groups the heads");
  refuse(
      [](auto& s) {
        s.heads = 8;
        s.rotary = true;
      },
      "[gpt] rotary positions need heads of an even width, got 8 / 8");
  CHECK_THROWS_AS(Gpt(kSmall, 1), ValueError);
}
