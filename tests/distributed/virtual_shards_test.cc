// Virtual shards: gradients that are one balanced tree of sums, the same to the bit on any number
// of ranks, and every way of running too many or too few passes.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/linear.h"
#include "optim/sgd.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kShards = 8;

struct Net : nn::Module {
  nn::Linear first{7, 13}, second{13, 5};
  CAPSTAN_MODULE(Net, first, second)
  Tensor forward(const Tensor& x) { return mean(square(second(first(x)))); }
};

/// The samples of a shard: 0 to 4 of them.
Tensor samples_of(int64_t shard) {
  Generator generator(shard + 1);
  return randn({(shard * 3) % 5, 7}, 0, 1, {}, generator);
}

std::vector<float> gradients_of(nn::Module& model) {
  std::vector<float> all;
  for (const auto& [_, parameter] : model.parameters()) {
    for (float g : parameter.grad().to_vector<float>()) all.push_back(g);
  }
  return all;
}

/// Gradients, loss and weight of one window on `ranks` ranks, as rank 0 has them.
std::vector<float> window(int ranks, const CommOptions& options = {}) {
  std::vector<float> result;
  const auto run = [&](Communicator& comm) {
    manual_seed(3);
    Net model;
    Ddp ddp(model, comm,
            {.first_bucket_bytes = 64, .bucket_bytes = 300, .virtual_shards = kShards});
    const int64_t passes = kShards / ranks;
    for (int repetition = 0; repetition < 2; ++repetition) {  // the second has another plan
      for (int64_t pass = 0; pass < passes; ++pass) {
        const Tensor x = samples_of(comm.rank() * passes + pass);
        const Sync sync = pass + 1 == passes ? Sync::yes : Sync::no;
        if (x.size(0) == 0) {
          ddp.backward_without_data(sync);
        } else {
          ddp.backward(model(x), static_cast<double>(x.size(0)), sync);
        }
      }
      std::vector<float> here = gradients_of(model);
      here.push_back(static_cast<float>(ddp.loss()));
      here.push_back(static_cast<float>(ddp.weight()));
      if (repetition == 1 && comm.rank() == 0) CHECK(here == result);
      if (comm.rank() == 0) result = here;
      for (const auto& [_, parameter] : model.parameters()) zero_grad(parameter);
    }
  };
  run_ranks(ranks, run, options);
  return result;
}

/// Sums of the shards [first, last), as the slow, obvious recursion adds them.
std::vector<float> tree(const std::vector<std::vector<float>>& shards, size_t first, size_t last) {
  if (last - first == 1) return shards[first];
  const size_t middle = (first + last) / 2;
  std::vector<float> left = tree(shards, first, middle);
  const std::vector<float> right = tree(shards, middle, last);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

TEST_CASE("a window is a balanced tree over its shards, on any number of ranks") {
  std::vector<std::vector<float>> shards;
  float weight = 0;
  for (int64_t shard = 0; shard < kShards; ++shard) {
    manual_seed(3);
    Net model;
    const Tensor x = samples_of(shard);
    const auto samples = static_cast<float>(x.size(0));
    std::vector<float> loss{0};
    if (x.size(0) > 0) {
      const Tensor mean_loss = model(x);
      backward(mean_loss, {.seed = full({}, samples)});
      loss[0] = mean_loss.item<float>() * samples;
    } else {
      for (const auto& [_, p] : model.parameters()) accumulator(p).set_grad(zeros(p.shape()));
    }
    shards.push_back(gradients_of(model));
    shards.back().push_back(loss[0]);
    weight += samples;
  }
  std::vector<float> expected = tree(shards, 0, shards.size());
  const float inverse = 1 / weight;
  for (float& value : expected) value *= inverse;

  const std::vector<float> alone = window(1);
  REQUIRE(alone.size() == expected.size() + 1);
  for (size_t i = 0; i + 1 < expected.size(); ++i) REQUIRE(alone[i] == expected[i]);
  CHECK(alone[expected.size() - 1] == doctest::Approx(expected.back()));
  CHECK(alone.back() == weight);
  for (int ranks : {2, 4, 8}) {
    CHECK(window(ranks) == alone);
    CHECK(window(ranks, {.share_memory = false}) == alone);
  }
}

TEST_CASE("numbers of shards and ranks that make no balanced tree are refused") {
  Net model;
  const auto alone = make_self();
  for (int64_t shards : {3, 12, -1}) {
    CHECK_THROWS_AS(Ddp(model, *alone, {.virtual_shards = shards}), ValueError);
  }
  for (const auto& [ranks, shards] : {std::pair(3, 4), {3, 3}, {4, 2}}) {
    const auto run = [shards = shards](Communicator& comm) {
      Net mine;
      CHECK_THROWS_AS(Ddp(mine, comm, {.virtual_shards = shards}), ValueError);
    };
    run_ranks(ranks, run);
  }
  const auto differ = [](Communicator& comm) {
    Net mine;
    CHECK_THROWS_AS(Ddp(mine, comm, {.virtual_shards = comm.rank() == 0 ? 0 : 4}), SharedError);
  };
  run_ranks(2, differ);
}

TEST_CASE("a window has as many passes as shards") {
  const auto alone = make_self();
  Net model;
  Ddp ddp(model, *alone, {.virtual_shards = 4});
  optim::Sgd sgd(model.parameters(), {});
  const Tensor x = samples_of(1);
  const auto pass = [&](Sync sync) { ddp.backward(model(x), 3, sync); };

  SUBCASE("too few") {
    pass(Sync::no);
    CHECK_THROWS_AS(sgd.step(0.1), GradientError);  // though no gradient is left to be seen
    CHECK_THROWS_AS(pass(Sync::yes), GradientError);
  }
  SUBCASE("too many") {
    for (int i = 0; i < 3; ++i) pass(Sync::no);
    CHECK_THROWS_AS(pass(Sync::no), GradientError);
    pass(Sync::yes);  // nothing was lost
    CHECK(ddp.weight() == 12);
  }
  SUBCASE("none with samples, but the last") {
    for (int i = 0; i < 3; ++i) ddp.backward_without_data(Sync::no);
    pass(Sync::yes);
    CHECK(ddp.weight() == 3);
  }
  // Either way the window can be given up.
  sgd.zero_grad();
  for (int i = 0; i < 3; ++i) pass(Sync::no);
  pass(Sync::yes);
  CHECK(ddp.weight() == 12);
  sgd.step(0.1);
}

/// Uses `b` only where there is much of it.
struct Choosy : nn::Module {
  nn::Parameter a{ones({3})}, b{ones({3})};
  CAPSTAN_MODULE(Choosy, a, b)
  Tensor forward(bool both) { return both ? sum(a * b) : sum(a); }
};

TEST_CASE("a parameter that some shards of a window use is used") {
  const auto run = [](Communicator& comm) {
    Choosy model;
    Ddp ddp(model, comm, {.virtual_shards = 4});
    ddp.backward(model(comm.rank() == 0), Sync::no);
    if (comm.rank() == 0) {
      ddp.backward(model(false), Sync::yes);
    } else {
      ddp.backward(model(true), Sync::yes);
    }
    CHECK(model.a.grad().to_vector<float>() == std::vector<float>(3, 1));
    CHECK(model.b.grad().to_vector<float>() == std::vector<float>(3, 0.5));
  };
  run_ranks(2, run);
  const auto alone = make_self();
  Choosy model;
  Ddp ddp(model, *alone, {.virtual_shards = 2});
  ddp.backward(model(false), Sync::no);
  CHECK_THROWS_AS(ddp.backward(model(false), Sync::yes), GradientError);
}

}  // namespace
}  // namespace capstan::distributed
