// What kernels on meta count, by hand.
#include "core/costs.h"

#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/error.h"
#include "core/updates.h"

using namespace capstan;

namespace {

Tensor on_meta(const Shape& shape, Dtype dtype = Dtype::float32) {
  return empty(shape, {dtype, Device::meta()});
}

Tensor spread(const Tensor& x, const Shape& shape) {
  return view_of(x, x.layout().expanded(shape));
}

/// The cost of one call.
template <class F>
Cost cost(const F& call) {
  CountCosts costs;
  call(backend(Device::meta()));
  CHECK(costs.by_kernel().size() == 1);
  return costs.total();
}

}  // namespace

TEST_CASE("element-wise kernels cost one operation an element, and read what is broadcast once") {
  const Tensor x = on_meta({3, 5}), row = spread(on_meta({5}), {3, 5}),
               bits = on_meta({3, 5}, Dtype::boolean);
  const Tensor whole = on_meta({3, 5}, Dtype::int64);
  CHECK(cost([&](Backend& b) { b.fill(x, 1); }) == Cost{1, 0, 0, 60});
  CHECK(cost([&](Backend& b) { b.copy(x, whole); }) == Cost{1, 0, 60, 120});
  CHECK(cost([&](Backend& b) { b.unary(Unary::exp, x, x); }) == Cost{1, 15, 60, 60});
  CHECK(cost([&](Backend& b) { b.unary(Unary::negate, whole, whole); }) == Cost{1, 0, 120, 120});
  CHECK(cost([&](Backend& b) { b.binary(Binary::add, x, row, x); }) == Cost{1, 15, 80, 60});
  CHECK(cost([&](Backend& b) { b.compare(Compare::less, x, row, bits); }) == Cost{1, 15, 80, 15});
  CHECK(cost([&](Backend& b) { b.where(bits, x, row, x); }) == Cost{1, 0, 95, 60});
  CHECK(cost([&](Backend& b) { b.dropout(0, 0, x.layout(), 0.5, x, x); }) == Cost{1, 15, 60, 60});
  CHECK(cost([&](Backend& b) { b.uniform(0, 0, 0, 1, x); }) == Cost{1, 15, 0, 60});
  CHECK(cost([&](Backend& b) { b.normal(0, 0, 0, 1, x); }) == Cost{1, 15, 0, 60});
  CHECK(cost([&](Backend& b) { b.integers(0, 0, 0, 9, whole); }) == Cost{1, 0, 0, 120});
  const Tensor none = on_meta({0, 5}), repeated = spread(on_meta({1, 5}), {0, 5});
  CHECK(cost([&](Backend& b) { b.binary(Binary::add, none, repeated, none); }) == Cost{1, 0, 0, 0});
}

TEST_CASE("reductions cost one operation for each element that goes in") {
  const Tensor x = on_meta({3, 5}, Dtype::float64), out = on_meta({3, 1}, Dtype::float64);
  const Tensor places = on_meta({3, 1}, Dtype::int64);
  CHECK(cost([&](Backend& b) { b.reduce(Reduction::max, x, out); }) == Cost{1, 15, 120, 24});
  CHECK(cost([&](Backend& b) { b.extreme_position(Reduction::max, x, 1, places); }) ==
        Cost{1, 15, 120, 24});
  CHECK(cost([&](Backend& b) { b.cumulative_sum(x, 1, x); }) == Cost{1, 15, 120, 120});
  // 5 elements in order: 3 rounds of comparisons.
  CHECK(cost([&](Backend& b) { b.order(x, false, places); }) == Cost{1, 45, 120, 24});
}

TEST_CASE("products") {
  const Tensor a = on_meta({7, 2, 3}), b3 = on_meta({7, 3, 5}), out = on_meta({7, 2, 5});
  CHECK(cost([&](Backend& b) { b.matmul(a, b3, out); }) ==
        Cost{1, 7 * 2 * 5 * 3 * 2, 4 * 7 * (6 + 15), 4 * 70});
  const Tensor shared = spread(on_meta({1, 3, 5}), {7, 3, 5});  // one matrix for all
  CHECK(cost([&](Backend& b) { b.matmul(a, shared, out); }) == Cost{1, 420, 4 * (42 + 15), 4 * 70});
  const Tensor m = on_meta({2, 3, 3}), v = on_meta({2, 3, 4}), s = on_meta({2, 3});
  CHECK(cost([&](Backend& b) { b.cholesky(m, m); }).flops == 2 * 9);
  CHECK(cost([&](Backend& b) { b.solve(m, v, v); }).flops == 2 * (18 + 2 * 9 * 4));
  CHECK(cost([&](Backend& b) { b.qr(v, m, v); }).flops == 2 * 4 * (9 * 4 - 9));
  CHECK(cost([&](Backend& b) { b.svd(v, m, s, v); }).flops == 2 * (6 * 4 * 9 + 20 * 27));
  CHECK(cost([&](Backend& b) { b.eigh(m, s, m); }).flops == 2 * 9 * 27);
}

TEST_CASE("rows and elements by index are moved, or added") {
  const Tensor table = on_meta({100, 5}), rows = on_meta({3, 5});
  const Tensor list = on_meta({3}, Dtype::int64), index = on_meta({3, 5}, Dtype::int64);
  CHECK(cost([&](Backend& b) { b.take_rows(table, list, rows); }) == Cost{1, 0, 24 + 60, 60});
  CHECK(cost([&](Backend& b) { b.add_rows(rows, list, table); }) == Cost{1, 15, 60 + 24 + 60, 60});
  CHECK(cost([&](Backend& b) { b.gather(table, 0, index, rows); }) == Cost{1, 0, 120 + 60, 60});
  CHECK(cost([&](Backend& b) { b.scatter(rows, 0, index, table, false); }) ==
        Cost{1, 0, 60 + 120, 60});
  CHECK(cost([&](Backend& b) { b.scatter(rows, 0, index, table, true); }) ==
        Cost{1, 15, 60 + 120 + 60, 60});
}

TEST_CASE("softmax, cross-entropy and normalisation") {
  const Tensor x = on_meta({3, 5}), losses = on_meta({3}), sums = on_meta({3, 2});
  const Tensor targets = on_meta({3}, Dtype::int64), stats = on_meta({3, 2});
  CHECK(cost([&](Backend& b) { b.log_softmax(x, x); }) == Cost{1, 75, 60, 60});
  CHECK(cost([&](Backend& b) { b.log_softmax_grad(x, x, x); }) == Cost{1, 60, 120, 60});
  CHECK(cost([&](Backend& b) { b.cross_entropy(x, targets, -1, losses, sums); }) ==
        Cost{1, 60, 60 + 24, 12 + 24});
  CHECK(cost([&](Backend& b) { b.cross_entropy_grad(losses, x, targets, -1, sums, x); }) ==
        Cost{1, 60, 12 + 60 + 24 + 24, 60});
  const Tensor groups = on_meta({1, 3, 5});
  CHECK(cost([&](Backend& b) { b.normalize(groups, true, 0, groups, stats); }) ==
        Cost{1, 90, 60, 60 + 24});
  CHECK(cost([&](Backend& b) { b.normalize(groups, false, 0, groups, stats); }).flops == 45);
  CHECK(cost([&](Backend& b) { b.normalize_grad(groups, groups, stats, true, 0, groups); }) ==
        Cost{1, 135, 60 + 60 + 24, 60});
  CHECK(cost([&](Backend& b) {
          b.normalize_grad(groups, groups, stats, false, 0, groups);
        }).flops == 90);
}

TEST_CASE("attention counts the pairs that are seen") {
  // 2 x 6 heads, 3 queries of 4 features, 5 keys in 2 groups, values of 7 features.
  const Tensor q = on_meta({2, 6, 3, 4}), k = on_meta({2, 2, 5, 4}), v = on_meta({2, 2, 5, 7});
  const Tensor out = on_meta({2, 6, 3, 7}), sums = on_meta({2, 6, 3, 2});
  const Tensor mask = spread(on_meta({3, 5}), {2, 6, 3, 5});
  const int64_t heads = 12, inputs = 4 * (144 + 80 + 140), results = 4 * (252 + 72);
  const auto forward = [&](const AttentionRules& rules) {
    return cost([&](Backend& b) { b.attention(q, k, v, rules, out, sums); });
  };
  CHECK(forward({}) == Cost{1, heads * 15 * (8 + 5 + 14) + 252, inputs, results});
  CHECK(forward({.mask = mask}) == Cost{1, heads * 15 * (8 + 6 + 14) + 252, inputs + 60, results});
  CHECK(forward({.dropout = 0.5}) == Cost{1, heads * 15 * (8 + 6 + 14) + 252, inputs, results});
  // The three queries see 3, 4 and 5 keys.
  CHECK(forward({.causal = true}) == Cost{1, heads * 12 * (8 + 5 + 14) + 252, inputs, results});
  const auto backward = [&](const AttentionRules& rules) {
    return cost([&](Backend& b) { b.attention_grad(out, q, k, v, rules, out, sums, q, k, v); });
  };
  CHECK(backward({.causal = true}) ==
        Cost{1, heads * 12 * (24 + 7 + 28) + 2 * 252, inputs + results + 4 * 252, inputs});
  CHECK(backward({.mask = mask}).flops == heads * 15 * (24 + 8 + 28) + 2 * 252);
  // More queries than keys: with 3 keys and 5 queries, two see nothing.
  const Tensor many = on_meta({1, 1, 5, 4}), few = on_meta({1, 1, 3, 4});
  const Tensor seen = on_meta({1, 1, 5, 4}), kept = on_meta({1, 1, 5, 2});
  CHECK(cost([&](Backend& b) {
          b.attention(many, few, few, {.causal = true}, seen, kept);
        }).flops == 6 * (8 + 5 + 8) + 20);
}

TEST_CASE("steps of recurrent cells, with and without bias, and ctc") {
  // 2 rows, 3 wide: 6 numbers of each gate.
  const auto step = [](Cell cell, bool with_bias) {
    const auto [gates, states, kept] = sizes_of(cell);
    const Tensor x = on_meta({2, gates * 3}), bias = on_meta({gates * 3});
    const Tensor state = on_meta({states, 2, 3}), memory = on_meta({2, kept * 3});
    return std::pair{
        cost([&](Backend& b) {
          b.recurrent_step(cell, x, x, with_bias ? &bias : nullptr, state, state, memory);
        }),
        cost([&](Backend& b) { b.recurrent_step_grad(cell, state, memory, state, state, x, x); })};
  };
  // Sums of x and hidden, tanh.
  CHECK(step(Cell::rnn_tanh, false).first == Cost{1, 6 * 2, 4 * (6 + 6 + 6), 4 * (6 + 6 + 6)});
  CHECK(step(Cell::rnn_relu, true).first.flops == 6 * 3);
  CHECK(step(Cell::rnn_relu, true).second.flops == 6 * 4);
  // 4 sums, 4 activations; c takes 3, tanh 1 and h 1.
  CHECK(step(Cell::lstm, true).first ==
        Cost{1, 6 * (13 + 4), 4 * (24 + 24 + 12 + 12), 4 * (12 + 12 + 30)});
  CHECK(step(Cell::lstm, true).second ==
        Cost{1, 6 * 24, 4 * (12 + 30 + 12 + 12), 4 * (12 + 24 + 24)});
  CHECK(step(Cell::gru, true).first.flops == 6 * (10 + 3));
  CHECK(step(Cell::gru, true).second.flops == 6 * 17);

  // Sequences of 5 and 3 frames and 2 and 1 labels, of 7 classes.
  const std::vector<int64_t> frames = {5, 3}, labels = {2, 1};
  const Tensor log_p = on_meta({5, 2, 7}), targets = on_meta({2, 2}, Dtype::int64);
  const Tensor losses = on_meta({2}), alphas = on_meta({2, 5, 5}, Dtype::float64);
  const int64_t states = 5 * 5 + 3 * 3;
  CHECK(cost([&](Backend& b) {
          b.ctc_loss(log_p, targets, {frames, labels}, 0, losses, alphas);
        }) == Cost{1, 13 * states, 280 + 32, 8 + 400});
  CHECK(cost([&](Backend& b) {
          b.ctc_loss_grad(losses, log_p, targets, {frames, labels}, 0, losses, alphas, log_p);
        }) == Cost{1, 17 * states + 70, 8 + 280 + 32 + 8 + 400, 280});
}

TEST_CASE("convolution in groups, and pooling") {
  // [2, 4, 9, 9] with 6 filters in 2 groups of 2 channels of 3 x 3: 7 x 7 results.
  const Tensor x = on_meta({2, 4, 9, 9}), weight = on_meta({6, 2, 3, 3}), bias = on_meta({6});
  const Tensor out = on_meta({2, 6, 7, 7});
  const Window2d window{.kernel = {3, 3}};
  const int64_t results = 2 * 6 * 49, products = results * 2 * 9;
  CHECK(cost([&](Backend& b) { b.conv2d(x, weight, &bias, window, out); }) ==
        Cost{1, 2 * products + results, 4 * (648 + 108 + 6), 4 * results});
  CHECK(cost([&](Backend& b) { b.conv2d(x, weight, nullptr, window, out); }) ==
        Cost{1, 2 * products, 4 * (648 + 108), 4 * results});
  CHECK(cost([&](Backend& b) { b.conv2d_input_grad(out, weight, window, x); }) ==
        Cost{1, 2 * products, 4 * (results + 108), 4 * 648});
  CHECK(cost([&](Backend& b) { b.conv2d_weight_grad(out, x, window, weight); }) ==
        Cost{1, 2 * products, 4 * (results + 648), 4 * 108});
  const Tensor chosen = on_meta({2, 6, 7, 7}, Dtype::int32);
  CHECK(cost([&](Backend& b) { b.max_pool2d(x, window, out, chosen); }) ==
        Cost{1, 9 * results, 4 * 648, 8 * results});
  CHECK(cost([&](Backend& b) { b.max_pool2d_grad(out, chosen, x); }) ==
        Cost{1, results, 8 * results, 4 * 648});
}

TEST_CASE("an optimizer's rule costs its formula on each element, and what it keeps") {
  const Tensor p = on_meta({10}), g = on_meta({10});
  const std::vector<Tensor> kept = {on_meta({10}), Tensor()};
  CHECK(cost([&](Backend&) {
          apply_update({SgdRule{.rate = 1}, p, g, {kept.data(), 1}});
        }) == Cost{1, 70, 120, 80});
  CHECK(cost([&](Backend&) {
          apply_update({SgdRule{.rate = 1, .nesterov = true}, p, g});
        }) == Cost{1, 90, 80, 40});
  const auto flops = [&](const UpdateRule& rule) {
    return cost([&](Backend&) { apply_update({rule, p, g, kept}); }).flops;
  };
  CHECK(flops(AdamRule{}) == 170);
  CHECK(flops(LambRule{}) == 140);
  CHECK(flops(RmspropRule{}) == 190);
  CHECK(flops(AdagradRule{}) == 90);
  CHECK(flops(AdadeltaRule{}) == 180);
  CHECK(flops(LionRule{}) == 100);
  CHECK(flops(AverageRule{}) == 30);
}

TEST_CASE("counts nest, end with their scope, and make a table") {
  Backend& b = backend(Device::meta());
  const Tensor x = on_meta({10});
  b.fill(x, 1);
  CountCosts outer;
  b.fill(x, 1);
  {
    CountCosts inner;
    b.unary(Unary::exp, x, x);
    CHECK(inner.flops() == 10);
    CHECK(inner.bytes_read() == 40);
    CHECK(inner.bytes_written() == 40);
  }
  b.unary(Unary::log, x, x);
  fill_elements(zeros({3}), 1);  // not on meta
  CHECK(outer.total() == Cost{3, 20, 80, 120});
  CHECK(outer.by_kernel().at("unary") == Cost{2, 20, 80, 80});
  CHECK(to_string(outer) ==
        "kernel                     calls               FLOPs          bytes read       bytes "
        "written\n"
        "fill                           1                   0                   0                  "
        "40\n"
        "unary                          2                  20                  80                  "
        "80\n"
        "total                          3                  20                  80                 "
        "120\n");
}
