// Experts spread over ranks against one rank that has them all, and a known answer.
#include "distributed/expert_parallel/mixture_of_experts.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "optim/adamw.h"

namespace capstan::distributed {
namespace {

using doctest::Approx;
constexpr int64_t kWidth = 6, kExperts = 12;  // shared by 1, 2, 3 and 4 ranks
constexpr double kLimit = 1e-12;

MixtureOfExperts make(const MixtureOptions& options, Communicator& ranks) {
  manual_seed(4);
  MixtureOfExperts layer(kWidth, options, ranks);
  fill_elements(detach(layer.router.weight), 0);  // a router with opinions
  copy_elements(randn(layer.router.weight.shape()), detach(layer.router.weight));
  layer.to(Dtype::float64);
  return layer;
}

/// [rows, kWidth] for one rank, in a step.
Tensor tokens(int rank, int64_t rows, int64_t step = 0) {
  Generator generator = Generator(8).fork(rank * 1000 + step);
  return randn({rows, kWidth}, 0, 1, {.dtype = Dtype::float64}, generator);
}

Tensor loss_of(const MixtureOfExperts& layer, const Tensor& y) {
  const Tensor slopes = cos(cast(reshape(arange(y.numel()), y.shape()), Dtype::float64));
  return mean(y * y * slopes) + 0.3 * layer.balance;
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return a.numel() == 0 ? 0 : max(absolute(detach(a) - detach(b))).item<double>();
}

/// A rank's outputs and gradients against those of one rank that has all experts and sees the
/// tokens of one rank after another.
void compare(Communicator& ranks, const MixtureOptions& options) {
  constexpr int64_t kRows = 15;
  const int n = ranks.size();
  const auto self = make_self();
  MixtureOfExperts whole = make(options, *self), layer = make(options, ranks);
  CHECK(layer.experts.size() == static_cast<size_t>(kExperts / n));

  // Capacity counts for each rank's tokens, and balance over all: so one rank takes them in parts
  // for the results, and at once for the balance.
  std::vector<Tensor> xs, ys;
  for (int r = 0; r < n; ++r) xs.push_back(require_grad(tokens(r, kRows)));
  int64_t dropped = 0;
  for (const Tensor& x : xs) {
    ys.push_back(whole(x));
    dropped += whole.dropped;
  }
  whole(cat(xs));
  Tensor expected = full({}, 0, {.dtype = Dtype::float64});
  for (const Tensor& y : ys) expected = expected + loss_of(whole, y);
  backward(expected);

  const Tensor x = require_grad(tokens(ranks.rank(), kRows));
  const Tensor y = layer(x);
  const Tensor loss = loss_of(layer, y);
  backward(loss);
  CHECK(distance(y, ys[ranks.rank()]) < kLimit);
  CHECK(distance(layer.balance, whole.balance) < kLimit);
  CHECK(distance(layer.shares, whole.shares) < kLimit);
  CHECK(layer.dropped == dropped);
  CHECK((options.capacity == 0 ? dropped == 0 : dropped > 0));
  CHECK(distance(x.grad(), xs[ranks.rank()].grad()) < kLimit);
  const Tensor router_grad = dense_copy(layer.router.weight.grad());
  ranks.all_reduce(router_grad).wait();
  CHECK(distance(router_grad, whole.router.weight.grad()) < kLimit);
  for (auto& [number, expert] : layer.experts) {
    nn::FeedForward& other = whole.experts.at(number);
    CHECK(distance(expert.up.weight, other.up.weight) == 0);
    CHECK(distance(expert.up.weight.grad(), other.up.weight.grad()) < kLimit);
    CHECK(distance(expert.up.bias->grad(), other.up.bias->grad()) < kLimit);
    CHECK(distance(expert.down.weight.grad(), other.down.weight.grad()) < kLimit);
    CHECK(distance(expert.down.bias->grad(), other.down.bias->grad()) < kLimit);
  }
}

TEST_CASE("results and gradients are those of one rank with all experts") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      for (int64_t chosen : {1, 2, 12}) {
        compare(ranks, {.experts = kExperts, .chosen = chosen, .hidden = 10});
      }
      compare(ranks, {.experts = kExperts, .chosen = 1, .hidden = 10, .capacity = 1});
      compare(ranks, {.experts = kExperts, .chosen = 2, .hidden = 10, .capacity = 0.7});
    });
  }
}

TEST_CASE("ranks may have different numbers of tokens, or none") {
  run_ranks(3, [](Communicator& ranks) {
    const auto self = make_self();
    const MixtureOptions options{.experts = kExperts, .chosen = 2, .hidden = 10};
    MixtureOfExperts whole = make(options, *self), layer = make(options, ranks);
    const int64_t rows = 7 * ranks.rank();
    const Tensor x = require_grad(tokens(ranks.rank(), rows));
    const Tensor y = layer(reshape(x, {rows, 1, kWidth}));
    CHECK(y.shape() == Shape{rows, 1, kWidth});
    CHECK(distance(reshape(y, x.shape()), whole(x)) < kLimit);
    backward(sum(y) + layer.balance);
    for (const auto& [_, parameter] : layer.parameters()) CHECK(parameter.has_grad());
  });
}

TEST_CASE("20 steps under Ddp end where those of one rank do, whoever has which tokens") {
  run_ranks(4, [](Communicator& ranks) {
    constexpr int64_t kRows[] = {9, 0, 4, 1};
    const auto self = make_self();
    const MixtureOptions options{.experts = 4, .chosen = 2, .hidden = 10};
    MixtureOfExperts whole = make(options, *self), layer = make(options, ranks);
    optim::AdamW alone(whole.parameters()), together(layer.parameters());
    Ddp ddp(layer, ranks, {.spread = {"experts.*"}, .check_nan = true});
    for (int64_t step = 0; step < 20; ++step) {
      const auto loss = [](const MixtureOfExperts& m, const Tensor& y) {
        return mean(y * y) + 0.1 * m.balance;
      };
      std::vector<Tensor> all;
      for (int r = 0; r < ranks.size(); ++r) all.push_back(tokens(r, kRows[r], step));
      const Tensor expected = loss(whole, whole(cat(all)));
      backward(expected);
      alone.step(0.01);
      alone.zero_grad();
      const int64_t rows = kRows[ranks.rank()];
      const Tensor y = layer(tokens(ranks.rank(), rows, step));
      if (rows > 0) {
        ddp.backward(loss(layer, y), static_cast<double>(rows));
      } else {
        ddp.pass([&] { backward(0 * (sum(y) + layer.balance)); }, {.weight = 0}, Sync::yes);
      }
      CHECK(std::abs(ddp.loss() - expected.item<double>()) < 1e-12);
      together.step(0.01);
      together.zero_grad();
    }
    CHECK(distance(layer.router.weight, whole.router.weight) < 1e-10);
    for (auto& [number, expert] : layer.experts) {
      CHECK(distance(expert.up.weight, whole.experts.at(number).up.weight) < 1e-10);
    }
  });
}

TEST_CASE("experts that were made on one rank are spread; balance may be each rank's own") {
  run_ranks(3, [](Communicator& ranks) {
    const MixtureOptions options{
        .experts = kExperts, .chosen = 2, .hidden = 10, .own_balance = true};
    const auto self = make_self();
    MixtureOfExperts whole = make(options, *self), layer = whole.clone();
    spread_experts(layer, ranks);
    CHECK(layer.experts.size() == kExperts / 3);
    const Tensor x = tokens(ranks.rank(), 5 + ranks.rank());
    CHECK(distance(layer(x), whole(x)) < kLimit);
    CHECK(distance(layer.balance, whole.balance) < kLimit);
    CHECK(distance(layer.shares, whole.shares) < kLimit);
    nn::Linear other(2, 2);
    CHECK_THROWS_WITH_AS(spread_experts(other, ranks),
                         "[spread_experts] a Linear has no mixture of experts", ValueError);
  });
  manual_seed(2);
  MixtureOfExperts alone(kWidth, {.experts = 2, .chosen = 1, .hidden = 3});
  CHECK(alone.experts.size() == 2);
  CHECK(alone(ones({3, kWidth})).shape() == Shape{3, kWidth});
  run_ranks(4, [](Communicator& ranks) {
    MixtureOfExperts few(kWidth, {.experts = 2, .chosen = 1, .hidden = 3});
    CHECK_THROWS_WITH_AS(few.spread(ranks), doctest::Contains("4 ranks cannot share 2 experts"),
                         ValueError);
  });
}

TEST_CASE(
    "the balance loss is 1 where all is even, and the number of experts where one takes all") {
  const auto self = make_self();
  MixtureOfExperts layer = make({.experts = 4, .chosen = 1, .hidden = 3}, *self);
  const Tensor weight = detach(layer.router.weight);  // [4, 6]
  fill_elements(weight, 0);
  layer(tokens(0, 8));
  CHECK(layer.balance.item<double>() == Approx(1));  // P is even, whatever f
  // Token i asks for expert i % 4, or all for expert 2, and surely.
  for (int64_t e = 0; e < 4; ++e) weight.mutable_data<double>()[e * kWidth + e] = 1000;
  const auto ask = [&](const std::vector<int64_t>& experts) {
    Tensor x = zeros({static_cast<int64_t>(experts.size()), kWidth}, {.dtype = Dtype::float64});
    for (size_t i = 0; i < experts.size(); ++i) {
      x.mutable_data<double>()[i * kWidth + experts[i]] = 1;
    }
    layer(x);
    return layer.balance.item<double>();
  };
  CHECK(ask({0, 1, 2, 3, 0, 1, 2, 3}) == Approx(1));
  CHECK(layer.shares.to_vector<double>() == std::vector<double>{0.25, 0.25, 0.25, 0.25});
  CHECK(ask({2, 2, 2, 2}) == Approx(4));
  // f = (3, 0, 1, 0) / 4 and P the same: 4 (9 + 1) / 16.
  CHECK(ask({0, 0, 0, 2}) == Approx(2.5));
}

TEST_CASE("a token that capacity drops gets nothing, later tokens and second choices first") {
  const auto self = make_self();
  MixtureOfExperts layer = make({.experts = 2, .chosen = 1, .hidden = 3, .capacity = 1}, *self);
  fill_elements(detach(layer.router.weight), 0);
  layer.router.weight.mutable_data<double>()[0] = 1000;  // where feature 0 is positive: expert 0
  Tensor x = ones({4, kWidth}, {.dtype = Dtype::float64});
  const Tensor y = layer(x);  // all want expert 0, which takes ceil(4 / 2)
  CHECK(layer.dropped == 2);
  const Tensor sizes = max(absolute(detach(y)), {1});
  CHECK(sizes.to_vector<double>()[1] > 0);
  CHECK(sizes.to_vector<double>()[2] == 0);
  CHECK(sizes.to_vector<double>()[3] == 0);
}

TEST_CASE("in bfloat16 too, and what does not fit is refused") {
  run_ranks(2, [](Communicator& ranks) {
    MixtureOfExperts layer = make({.experts = 4, .chosen = 2, .hidden = 10}, ranks);
    layer.to(Dtype::bfloat16);
    const Tensor y = layer(cast(tokens(ranks.rank(), 5), Dtype::bfloat16));
    CHECK(y.dtype() == Dtype::bfloat16);
    backward(sum(y));
    CHECK_THROWS_WITH_AS(layer(zeros({3, 5})), "[mixture_of_experts] takes [..., 6], got [3, 5]",
                         ShapeError);

    const auto refused = [&](const MixtureOptions& options, const char* text, int64_t width = 4) {
      CHECK_THROWS_WITH_AS(MixtureOfExperts(width, options, ranks), doctest::Contains(text),
                           ValueError);
    };
    refused({.experts = 5}, "2 ranks cannot share 5 experts evenly");
    refused({.experts = 2, .chosen = 3}, "no more chosen than there are, got 4, 2048, 2 and 3");
    refused({.chosen = 0}, "must be 1 or more");
    refused({.hidden = 0}, "must be 1 or more");
    refused({}, "must be 1 or more", 0);
    refused({.capacity = -1}, "capacity must be 0 or more, got -1");
    CHECK_THROWS_WITH_AS(MixtureOfExperts(4, {.experts = 2 + 2 * ranks.rank()}, ranks),
                         doctest::Contains("mixture of experts"), SharedError);
  });
}

}  // namespace
}  // namespace capstan::distributed
