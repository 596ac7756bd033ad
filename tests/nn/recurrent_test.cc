// Tests of recurrent layers and cells: against PyTorch, and sequences of different lengths against
// each of them alone. (Single steps and all gradients of gradients: tests/autograd.)
#include "nn/recurrent.h"

#include "autograd/gradcheck.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "nn/recurrent_cells.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const TensorOptions kExact{.dtype = Dtype::float64};

Tensor c_of(const SequenceResult&) { return {}; }
Tensor c_of(const LSTMResult& result) { return result.c; }

/// Results one after the other, as in sequence_families.py.
Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    if (x.defined()) parts.push_back(reshape(x, {x.numel()}));
  }
  return cat(parts);
}

template <class Net>
void compare_layers(const std::string& name, bool relu = false) {
  const auto make = [&](const RecurrentOptions& options) {
    if constexpr (std::is_same_v<Net, RNN>) {
      return RNN(3, 4, options, relu ? Nonlinearity::relu : Nonlinearity::tanh);
    } else {
      return Net(3, 4, options);
    }
  };
  const auto compare = [&](const std::string& data, const RecurrentOptions& options,
                           const std::vector<int64_t>& lengths = {}) {
    compare_with_pytorch(
        make(options), name + "/" + data,
        [&](Net& net, const std::vector<Tensor>& in) {
          const auto result = net(in[0], SequenceOptions{.lengths = lengths,
                                                         .h = in.size() > 1 ? in[1] : Tensor(),
                                                         .c = in.size() > 2 ? in[2] : Tensor()});
          return flat({result.out, result.h, c_of(result)});
        },
        "recurrent");
  };
  if (relu) return compare("relu", {.layers = 2}, {3, 5});
  compare("plain", {});
  compare("states", {.layers = 2, .bias = false, .batch_first = true});
  compare("all", {.layers = 2, .bidirectional = true}, {2, 5, 1, 4});
  compare("batch_first", {.batch_first = true, .bidirectional = true}, {3, 4});
}

TEST_CASE("recurrent layers give PyTorch's results and gradients") {
  compare_layers<RNN>("RNN");
  compare_layers<RNN>("RNN", true);
  compare_layers<LSTM>("LSTM");
  compare_layers<GRU>("GRU");
}

TEST_CASE("recurrent cells give PyTorch's results and gradients") {
  const auto step = [](auto& cell, const auto& in) { return cell(in[0], in[1]); };
  compare_with_pytorch(RNNCell(3, 4), "RNNCell", step, "recurrent");
  compare_with_pytorch(RNNCell(3, 4, {}, Nonlinearity::relu), "RNNCell/relu", step, "recurrent");
  compare_with_pytorch(GRUCell(3, 4, {.bias = false}), "GRUCell", step, "recurrent");
  compare_with_pytorch(
      LSTMCell(3, 4), "LSTMCell",
      [](auto& cell, const auto& in) {
        const LSTMState state = cell(in[0], LSTMState{in[1], in[2]});
        return flat({state.h, state.c});
      },
      "recurrent");
  compare_with_pytorch(
      LSTMCell(3, 4), "LSTMCell/start",
      [](auto& cell, const auto& in) {
        const LSTMState state = cell(in[0]);
        return flat({state.h, state.c});
      },
      "recurrent");
}

/// Runs a batch of sequences with garbage behind their ends, and each sequence alone.
template <class Net>
void compare_lengths(Net net, bool batch_first) {
  net.to(Dtype::float64);
  const std::vector<int64_t> lengths = {4, 9, 1, 9, 2, 7, 4};
  const int64_t n = 11, batch = 7, in = 3, width = net.layers.width;
  Tensor x = rand({n, batch, in}, -1, 1, kExact);
  for (int64_t i = 0; i < batch; ++i) {
    fill_elements(detach(select(slice(x, 0, lengths[i], n), 1, i)), kNaN);
  }
  require_grad(x);
  const int64_t layers = static_cast<int64_t>(net.layers.weights.size());
  const bool has_c = net.layers.cell == Cell::lstm;
  const Tensor h = require_grad(rand({layers, batch, width}, -1, 1, kExact));
  const Tensor c = require_grad(rand({layers, batch, width}, -1, 1, kExact));
  const Tensor leaves[] = {x, h, c};

  // The gradients of a sum that weighs all results differently, by inputs and parameters.
  const auto gradients_of = [&](const Tensor& results) {
    for (const Tensor& leaf : leaves) zero_grad(leaf);
    net.zero_grad();
    Generator generator(5);
    backward(sum(results * rand(results.shape(), 0.5, 1.5, kExact, generator)));
    std::vector<Tensor> gradients;
    for (const Tensor& leaf : leaves) {
      if (leaf.has_grad()) gradients.push_back(dense_copy(leaf.grad()));
    }
    for (const auto& [_, parameter] : net.parameters()) {
      gradients.push_back(dense_copy(parameter.grad()));
    }
    return gradients;
  };

  const Tensor fed = batch_first ? transpose(x, 0, 1) : x;
  const auto together =
      net(fed, SequenceOptions{.lengths = lengths, .h = h, .c = has_c ? c : Tensor()});
  const Tensor out = batch_first ? transpose(together.out, 0, 1) : together.out;
  std::vector<Tensor> outs, last_h, last_c;
  for (int64_t i = 0; i < batch; ++i) {
    const auto one = [&](const Tensor& state) { return slice(state, 1, i, i + 1); };
    const Tensor alone = slice(one(x), 0, 0, lengths[i]);
    const auto result = net(batch_first ? transpose(alone, 0, 1) : alone,
                            SequenceOptions{.h = one(h), .c = has_c ? one(c) : Tensor()});
    const Tensor steps = batch_first ? transpose(result.out, 0, 1) : result.out;
    outs.push_back(pad(steps, {0, 0, 0}, {n - lengths[i], 0, 0}));
    last_h.push_back(result.h);
    if (has_c) last_c.push_back(c_of(result));
  }
  const Tensor expected = flat({cat(outs, 1), cat(last_h, 1), has_c ? cat(last_c, 1) : Tensor()});
  const Tensor got = flat({out, together.h, c_of(together)});
  CHECK(testing::distance(got, expected) < 1e-13);
  const auto slopes = gradients_of(got), expected_slopes = gradients_of(expected);
  REQUIRE(slopes.size() == expected_slopes.size());
  for (size_t i = 0; i < slopes.size(); ++i) {
    CHECK(testing::distance(slopes[i], expected_slopes[i]) < 1e-12);
  }
  const auto of_x = slopes[0].template to_vector<double>();  // from padding: exactly 0
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t i = 0; i < batch; ++i)
      CHECK((of_x[(t * batch + i) * in] == 0) == (t >= lengths[i]));
  }
}

TEST_CASE("sequences of different lengths give what each gives alone") {
  for (const bool batch_first : {false, true}) {
    const RecurrentOptions options{.layers = 2, .batch_first = batch_first, .bidirectional = true};
    compare_lengths(RNN(3, 5, options), batch_first);
    compare_lengths(LSTM(3, 5, options), batch_first);
    compare_lengths(GRU(3, 5, options), batch_first);
    compare_lengths(GRU(3, 1, {.bias = false, .batch_first = batch_first}), batch_first);
  }
}

TEST_CASE("a layer does what its cell does step by step") {
  LSTM lstm(3, 40);
  LSTMCell cell(3, 40);
  load_state_dict(cell, {{"weight_ih", lstm.layers.weights[0].weight_ih},
                         {"weight_hh", lstm.layers.weights[0].weight_hh},
                         {"bias_ih", *lstm.layers.weights[0].bias_ih},
                         {"bias_hh", *lstm.layers.weights[0].bias_hh}});
  const Tensor x = rand({6, 50, 3}, -1, 1);
  LSTMState state;
  std::vector<Tensor> outs;
  for (int64_t t = 0; t < 6; ++t) {
    state = cell(select(x, 0, t), state);
    outs.push_back(state.h);
  }
  const auto [out, h, c] = lstm(x);
  CHECK(testing::distance(out, stack(outs)) < 1e-6);
  CHECK(testing::distance(select(h, 0, 0), state.h) < 1e-6);
  CHECK(testing::distance(select(c, 0, 0), state.c) < 1e-6);
}

TEST_CASE("recurrent layers give the same bits on any number of threads") {
  const auto results = [](int threads) {
    set_thread_count(threads);
    Generator generator(3);
    default_generator() = Generator(4);
    LSTM lstm(17, 70, {.layers = 2, .bidirectional = true});
    const Tensor x = require_grad(rand({9, 101, 17}, -1, 1, {}, generator));
    const auto result = lstm(x);
    backward(sum(square(result.out)) + sum(result.c));
    set_thread_count(2);
    std::vector<std::vector<float>> bits{result.out.to_vector<float>(),
                                         x.grad().to_vector<float>()};
    for (const auto& [_, parameter] : lstm.parameters()) {
      bits.push_back(parameter.grad().to_vector<float>());
    }
    return bits;
  };
  const auto alone = results(1);
  CHECK(results(2) == alone);
  CHECK(results(5) == alone);
}

TEST_CASE("dropout falls on what goes from layer to layer, in training only") {
  GRU deep(3, 8, {.layers = 2, .dropout = 0.5}), flat_one(3, 8, {.dropout = 0.5});
  const Tensor x = rand({4, 2, 3}, -1, 1);
  const auto out = [&](GRU& net) { return net(x).out.to_vector<float>(); };
  CHECK(out(deep) != out(deep));
  CHECK(out(flat_one) == out(flat_one));
  const auto lower = [&] { return select(deep(x).h, 0, 0).to_vector<float>(); };
  CHECK(lower() == lower());
  deep.eval();
  CHECK(out(deep) == out(deep));
}

TEST_CASE("parameters have PyTorch's names, order and start") {
  LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& [name, _] : lstm.parameters()) names.push_back(name);
  std::vector<std::string> expected;
  for (const std::string end : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"}) {
    for (const std::string name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
      expected.push_back(name + end);
    }
  }
  CHECK(names == expected);
  const auto state = state_dict(lstm);
  CHECK(state[0].second.shape() == Shape{16, 3});
  CHECK(state[8].second.shape() == Shape{16, 8});
  CHECK(lstm.parameter_count() == 16 * (2 * (3 + 4 + 2) + 2 * (8 + 4 + 2)));
  for (const auto& [name, x] : GRU(50, 4).parameters()) {
    const auto numbers = x.to_vector<float>();
    const float most = *std::max_element(numbers.begin(), numbers.end());
    CHECK(most <= 0.5f);
    CHECK(most > 0.3f);
    CHECK(*std::min_element(numbers.begin(), numbers.end()) < -0.3f);
  }
  CHECK(RNN(3, 4, {.bias = false}).parameters().size() == 2);

  LSTM copy = lstm.clone(), shared = lstm;
  fill_elements(lstm.layers.weights[0].weight_ih, 7);
  CHECK(shared.layers.weights[0].weight_ih.to_vector<float>()[0] == 7);
  CHECK(copy.layers.weights[0].weight_ih.to_vector<float>()[0] != 7);
}

TEST_CASE("gradients of gradients go through a layer, and its inputs' hooks run once") {
  GRU gru(2, 2, {.bidirectional = true});
  gru.to(Dtype::float64);
  const Tensor x = require_grad(rand({3, 2, 2}, -1, 1, kExact));
  gradgradcheck(
      [&](const auto& in) {
        return gru(in[0], SequenceOptions{.lengths = {2, 3}}).out;
      },
      {x});
  int runs = 0;
  const Tensor state = require_grad(rand({1, 2, 2}, -1, 1, kExact)) * 1;
  const HookHandle hook = on_gradient(state, [&](const Tensor&) {
    ++runs;
    return Tensor();
  });
  GRU plain(2, 2);
  plain.to(Dtype::float64);
  grad({sum(plain(x, SequenceOptions{.h = state}).out)}, {x, state}, {.create_graph = true});
  CHECK(runs == 1);
}

TEST_CASE("recurrent layers run on meta, and on batches without sequences") {
  LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  const auto none = lstm(zeros({5, 0, 3}));
  CHECK(none.out.shape() == Shape{5, 0, 8});
  CHECK(none.c.shape() == Shape{4, 0, 4});
  lstm.to(Device::meta());
  const auto plan =
      lstm(zeros({5, 2, 3}, {.device = Device::meta()}), SequenceOptions{.lengths = {5, 3}});
  CHECK(plan.out.shape() == Shape{5, 2, 8});
  CHECK(plan.h.shape() == Shape{4, 2, 4});
}

TEST_CASE("recurrent layers say what does not fit") {
  CHECK_THROWS_WITH_AS(LSTM(0, 4), "[recurrent] input and width must be at least 1, got 0 and 4",
                       ValueError);
  CHECK_THROWS_AS(GRU(3, -1), ValueError);
  CHECK_THROWS_AS(RNNCell(3, 0), ValueError);
  CHECK_THROWS_WITH_AS(RNN(3, 4, {.layers = 0}), "[recurrent] needs at least one layer, got 0",
                       ValueError);
  CHECK_THROWS_WITH_AS(RNN(3, 4, {.dropout = 1}), "[recurrent] dropout must be in [0, 1), got 1",
                       ValueError);
  CHECK_THROWS_AS(RNN(3, 4, {.dropout = kNaN}), ValueError);

  GRU gru(3, 4);
  const auto run = [&](const Shape& shape, const SequenceOptions& sequences = {}) {
    return gru(zeros(shape), sequences);
  };
  CHECK_THROWS_WITH_AS(
      run({2, 3}), "[recurrent] takes [n, batch, 3] with n of at least 1, got [2, 3]", ShapeError);
  CHECK_THROWS_AS(run({5, 2, 4}), ShapeError);
  CHECK_THROWS_AS(run({0, 2, 3}), ShapeError);
  CHECK_THROWS_WITH_AS(GRU(3, 4, {.batch_first = true})(zeros({2, 0, 3})),
                       "[recurrent] takes [batch, n, 3] with n of at least 1, got [2, 0, 3]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(run({5, 2, 3}, {.lengths = {5}}),
                       "[recurrent] needs a length for each of 2 sequences, got 1", ShapeError);
  CHECK_THROWS_WITH_AS(run({5, 2, 3}, {.lengths = {5, 6}}),
                       "[recurrent] lengths must be in [1, 5], got 6 at position 1", ValueError);
  CHECK_THROWS_AS(run({5, 2, 3}, {.lengths = {0, 5}}), ValueError);
  CHECK_THROWS_WITH_AS(
      run({5, 2, 3}, {.h = zeros({2, 2, 4})}),
      "[recurrent] initial states must be [1, 2, 4] for x [5, 2, 3], got [2, 2, 4]", ShapeError);
  CHECK_THROWS_WITH_AS(run({5, 2, 3}, {.h = zeros({1, 2, 4}, kExact)}),
                       "[recurrent] initial states must be float32 as x, got float64", DtypeError);
  CHECK_THROWS_WITH_AS(run({5, 2, 3}, {.c = zeros({1, 2, 4})}),
                       "[recurrent] only an LSTM has a state c", ValueError);
  CHECK_THROWS_AS(run({5, 2, 3}, {.h = zeros({1, 2, 4}, {.device = Device::meta()})}), DeviceError);
  CHECK_THROWS_AS(gru(zeros({5, 2, 3}, {.dtype = Dtype::int64})), DtypeError);
  CHECK_THROWS_AS(gru(zeros({5, 2, 3}, kExact)), DtypeError);

  LSTMCell cell(3, 4);
  CHECK_THROWS_WITH_AS(
      cell(zeros({2, 3}), LSTMState{zeros({1, 4})}),
      "[recurrent] a cell takes x [batch, 3] and states [batch, 4], got [2, 3] and [1, 4]",
      ShapeError);
  CHECK_THROWS_AS(cell(zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(cell(zeros({3})), ShapeError);
  CHECK_THROWS_AS(cell(zeros({2, 3}), LSTMState{zeros({2, 4}, kExact)}), DtypeError);
}

}  // namespace
}  // namespace capstan::nn
