// Tests of attention layers, and of the kernel where the harness of operations does not look: many
// tiles, any number of threads, queries that see nothing, gradients of gradients.
#include "nn/attention.h"

#include <limits>

#include "autograd/dropout.h"
#include "autograd/gradcheck.h"
#include "autograd/matmul.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "nn/transformer.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

/// The same as scaled_dot_product_attention(), with the whole matrix of scores.
Tensor slow_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return matmul(softmax(matmul(q, transpose(k, 2, 3)) * scale + mask), v);
}

TEST_CASE("attention layers give PyTorch's results and gradients") {
  compare_with_pytorch(MultiheadAttention(6, 2), "attention",
                       [](auto& net, const auto& x) { return net(x[0], x[1]); });
  compare_with_pytorch(
      MultiheadAttention(6, 3, {.bias = false}), "causal_attention",
      [](auto& net, const auto& x) { return net(x[0], AttentionOptions{.causal = true}); });
}

TEST_CASE("attention itself can be replaced, and gets what is not turned yet") {
  MultiheadAttention layer(8, 4, {.groups = 2, .rotary = true}), other = layer;
  const Tensor x = randn({2, 5, 8});
  int calls = 0;
  layer.attend = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionOptions& rules) {
    ++calls;
    CHECK(q.shape() == Shape{2, 4, 5, 2});
    CHECK(k.shape() == Shape{2, 2, 5, 2});
    return scaled_dot_product_attention(rotary_embedding(q), rotary_embedding(k), v, rules);
  };
  const AttentionOptions causal{.causal = true};
  CHECK(layer(x, causal).to_vector<float>() == other(x, causal).to_vector<float>());
  CHECK(calls == 1);
}

TEST_CASE("transformer layers give PyTorch's results and gradients") {
  const TransformerOptions options{.hidden = 5, .dropout = 0};
  compare_with_pytorch(TransformerEncoderLayer(4, 2, options), "encoder");
  compare_with_pytorch(
      TransformerEncoderLayer(4, 2, {.hidden = 5, .dropout = 0, .norm_first = true, .gelu = true}),
      "encoder_norm_first");
  compare_with_pytorch(TransformerDecoderLayer(4, 2, options), "decoder",
                       [](auto& net, const auto& x) { return net(x[0], x[1]); });
}

TEST_CASE("many tiles give what the whole matrix of scores gives") {
  const TensorOptions exact{.dtype = Dtype::float64};
  const auto leaf = [&](const Shape& shape) { return require_grad(rand(shape, -1, 1, exact)); };
  const Tensor q = leaf({2, 3, 130, 8}), k = leaf({2, 3, 300, 8}), v = leaf({2, 3, 300, 5});
  const Tensor mask = rand({130, 300}, -3, 3, exact), seed = rand({2, 3, 130, 5}, -1, 1, exact);
  const auto results = [&](const auto& f) {
    for (const Tensor* t : {&q, &k, &v}) zero_grad(*t);
    const Tensor out = f();
    backward(out, {.seed = seed});
    return std::vector<Tensor>{out, dense_copy(q.grad()), dense_copy(k.grad()),
                               dense_copy(v.grad())};
  };
  const auto fast = results([&] { return scaled_dot_product_attention(q, k, v, {.mask = mask}); });
  const auto slow = results([&] { return slow_attention(q, k, v, mask); });
  for (size_t i = 0; i < fast.size(); ++i) CHECK(testing::distance(fast[i], slow[i]) < 1e-12);
}

TEST_CASE("attention gives the same bits on any number of threads") {
  const auto results = [](int threads) {
    set_thread_count(threads);
    Generator generator(3);
    const auto leaf = [&](const Shape& shape) {
      return require_grad(rand(shape, -1, 1, {}, generator));
    };
    const Tensor q = leaf({2, 4, 150, 16}), k = leaf({2, 2, 150, 16}), v = leaf({2, 2, 150, 16});
    const Tensor out =
        scaled_dot_product_attention(q, k, v, {.causal = true, .dropout = 0.2}, generator);
    backward(sum(square(out)));
    set_thread_count(2);
    return std::vector{out.to_vector<float>(), q.grad().to_vector<float>(),
                       k.grad().to_vector<float>(), v.grad().to_vector<float>()};
  };
  const auto alone = results(1);
  CHECK(results(2) == alone);
  CHECK(results(5) == alone);
}

TEST_CASE("a query that sees no key gets 0, and gives no gradient") {
  const Tensor q = require_grad(rand({1, 1, 2, 3})), k = require_grad(rand({1, 1, 2, 3}));
  const Tensor v = require_grad(rand({1, 1, 2, 3}));
  const Tensor mask = from_vector<float>({0, 0, -INFINITY, -INFINITY}, {2, 2});
  const Tensor out = scaled_dot_product_attention(q, k, v, {.mask = mask});
  backward(sum(out));
  for (int i = 3; i < 6; ++i) {
    CHECK(out.to_vector<float>()[i] == 0);
    CHECK(q.grad().to_vector<float>()[i] == 0);
  }
  CHECK(all(isfinite(k.grad())).item<bool>());
  // Causal, with more queries than keys: the first sees nothing.
  const Tensor late =
      scaled_dot_product_attention(q, slice(k, 2, 0, 1), slice(v, 2, 0, 1), {.causal = true});
  CHECK(late.to_vector<float>()[0] == 0);
  CHECK(late.to_vector<float>()[3] != 0);
}

TEST_CASE("large scores overflow nothing") {
  const Tensor q = full({1, 1, 1, 1}, 1000), k = from_vector<float>({1, -1, 0.999f}, {1, 1, 3, 1});
  const Tensor v = from_vector<float>({1, 2, 3}, {1, 1, 3, 1});
  const float weight = 1 / (1 + std::exp(1000 * 0.999f - 1000));
  CHECK(scaled_dot_product_attention(q, k, v).item<float>() ==
        doctest::Approx(weight + 3 * (1 - weight)).epsilon(1e-4));
}

TEST_CASE("attention of rotary positions depends on distances only") {
  MultiheadAttention attention(8, 2, {.groups = 1, .rotary = true});
  CHECK(attention.key.weight.shape() == Shape{4, 8});
  const Tensor q = rand({1, 1, 1, 4}), k = rand({1, 1, 1, 4});
  const auto score = [&](int64_t at, int64_t other) {
    return sum(rotary_embedding(q, {.offset = at}) * rotary_embedding(k, {.offset = other}))
        .item<float>();
  };
  CHECK(score(3, 1) == doctest::Approx(score(10, 8)).epsilon(1e-5));
  CHECK(std::abs(score(3, 1) - score(5, 1)) > 1e-4);
  // The last query alone, over the keys of the whole sequence, gets what it got among all.
  const Tensor x = rand({1, 5, 8});
  const Tensor whole = attention(x, AttentionOptions{.causal = true});
  const Tensor last = attention(slice(x, 1, 4, 5), x, AttentionOptions{.causal = true});
  CHECK(testing::distance(slice(whole, 1, 4, 5), last) < 1e-6);
}

TEST_CASE("where ranks share heads and queries, each drops its part of what one would") {
  Generator start(4);
  const Tensor q = randn({2, 6, 4, 3}, 0, 1, {.dtype = Dtype::float64}, start);
  const Tensor k = randn({2, 6, 5, 3}, 0, 1, {.dtype = Dtype::float64}, start);
  const auto attend = [&](const Tensor& q, const Tensor& k, const AxisParts& parts) {
    Generator generator(8, 3);
    const Tensor result = scaled_dot_product_attention(
        q, k, k, {.causal = false, .dropout = 0.4, .parts = parts}, generator);
    CHECK(generator.offset() == 3 + 2 * 6 * 4 * 5);
    return result;
  };
  const Tensor whole = attend(q, k, {});
  for (int64_t rank = 0; rank < 3; ++rank) {
    const auto heads = [&](const Tensor& x) { return slice(x, 1, 2 * rank, 2 * rank + 2); };
    const Tensor own = attend(heads(q), heads(k), {{1, rank, 3}});
    CHECK(max(absolute(own - heads(whole))).item<double>() < 1e-15);
  }
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto rows = [&](const Tensor& x) { return slice(x, 2, 2 * rank, 2 * rank + 2); };
    const Tensor own = attend(rows(q), k, {{2, rank, 2}});
    CHECK(max(absolute(own - rows(whole))).item<double>() < 1e-15);
  }
}

TEST_CASE("dropout drops what it would of the whole matrix of weights, and draws as many numbers") {
  const TensorOptions exact{.dtype = Dtype::float64};
  const auto leaf = [&](const Shape& shape) { return require_grad(rand(shape, -1, 1, exact)); };
  const Tensor q = leaf({2, 3, 70, 8}), k = leaf({2, 3, 140, 8}), v = leaf({2, 3, 140, 5});
  const Tensor seed = rand({2, 3, 70, 5}, -1, 1, exact);
  const auto results = [&](const auto& f) {
    for (const Tensor* t : {&q, &k, &v}) zero_grad(*t);
    Generator generator(5, 3);
    const Tensor out = f(generator);
    backward(out, {.seed = seed});
    CHECK(generator.offset() == 3 + 2 * 3 * 70 * 140);
    return std::vector<Tensor>{out, dense_copy(q.grad()), dense_copy(k.grad()),
                               dense_copy(v.grad())};
  };
  const auto fast = results([&](Generator& generator) {
    return scaled_dot_product_attention(q, k, v, {.dropout = 0.4}, generator);
  });
  const auto slow = results([&](Generator& generator) {
    const Tensor weights = softmax(matmul(q, transpose(k, 2, 3)) / std::sqrt(8.0));
    return matmul(dropout(weights, 0.4, generator), v);
  });
  for (size_t i = 0; i < fast.size(); ++i) CHECK(testing::distance(fast[i], slow[i]) < 1e-12);

  Generator generator(5, 3);
  scaled_dot_product_attention(q, k, v, {}, generator);
  CHECK(generator.offset() == 3);  // without dropout nothing is drawn
}

TEST_CASE("attention drops in training only, and a Transformer's layer decides for its attention") {
  MultiheadAttention attention(8, 2, {.dropout = 0.5});
  const Tensor x = rand({1, 6, 8});
  const auto result = [&] { return attention(x).to_vector<float>(); };
  CHECK(result() != result());
  manual_seed(4);
  const auto first = result();
  manual_seed(4);
  CHECK(result() == first);
  attention.eval();
  const uint64_t before = default_generator().offset();
  CHECK(result() == result());
  CHECK(default_generator().offset() == before);

  CHECK(MultiheadAttention(8, 2).dropout == 0);
  const TransformerDecoderLayer decoder(8, 2, {.dropout = 0.3});
  CHECK(decoder.attention.dropout == 0.3);
  CHECK(decoder.memory_attention.dropout == 0.3);
  CHECK(TransformerEncoderLayer(8, 2).attention.dropout == 0.1);
  CHECK(TransformerEncoderLayer(8, 2, {.attention = {.dropout = 0}}).attention.dropout == 0);

  CHECK_THROWS_WITH_AS(MultiheadAttention(8, 2, {.dropout = 1}),
                       doctest::Contains("[dropout] p must be in [0, 1), got 1"), ValueError);
  CHECK_THROWS_WITH_AS(attention(x, AttentionOptions{.dropout = 0.5}),
                       "[multihead_attention] dropout is the layer's, not the call's, got 0.5",
                       ValueError);
}

TEST_CASE("attention layers say what does not fit") {
  CHECK_THROWS_WITH_AS(MultiheadAttention(6, 4),
                       "[multihead_attention] heads must divide the width and groups the heads, "
                       "got 6, 4 and 4",
                       ValueError);
  CHECK_THROWS_AS(MultiheadAttention(6, 2, {.groups = 3}), ValueError);
  CHECK_THROWS_AS(MultiheadAttention(6, 0), ValueError);
  MultiheadAttention attention(6, 2);
  CHECK_THROWS_WITH_AS(attention(ones({3, 6})), doctest::Contains("takes [batch, n, width]"),
                       ShapeError);
  CHECK_THROWS_AS(attention(ones({1, 3, 5})), ShapeError);
}

}  // namespace
}  // namespace capstan::nn
