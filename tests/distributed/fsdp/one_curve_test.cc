// With virtual shards, every stage on any number of ranks gives the weights of Ddp, to the last
// bit.
#include <doctest/doctest.h>

#include "autograd/views.h"
#include "nn/convolution.h"
#include "nn/pooling.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

constexpr int64_t kShards = 8;

/// The weights after some steps of passes with 0 to 4 samples, with clipping.
std::string train(Communicator& c, int stage, FsdpOptions options = {}) {
  manual_seed(c.rank() + 3);  // rank 0's weights must reach the others
  Tower model;
  options.virtual_shards = kShards;
  const auto path = strategy(model, c, stage, options);
  optim::AdamW adamw(path->parameters());
  const int64_t passes = kShards / c.size();
  for (int64_t step = 0; step < 20; ++step) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t shard = c.rank() * passes + pass, count = (3 * shard + step) % 5;
      const Sync sync = pass + 1 == passes ? Sync::yes : Sync::no;
      if (count == 0) {
        path->backward_without_data(sync);
      } else {
        const Samples s = samples(step, shard, count);
        path->backward(cross_entropy(model(s.x), s.y), static_cast<double>(count), sync);
      }
    }
    path->clip_grad_norm(0.5);
    adamw.step(0.01);
    path->after_step();
    adamw.zero_grad();
  }
  CHECK(path->loss() > 0);
  return hash_of(model, *path);
}

TEST_CASE("20 steps end in the same bits under Ddp and all stages, on 1, 2, 4 and 8 ranks") {
  std::string expected;
  run_ranks(1, [&](Communicator& c) { expected = train(c, 0); });
  for (int ranks : {1, 2, 4, 8}) {
    CAPTURE(ranks);
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(stage);
      run_ranks(ranks, [&](Communicator& c) { CHECK(train(c, stage) == expected); });
    }
    if (ranks == 8) return;
    run_ranks(ranks, [&](Communicator& c) {
      CHECK(train(c, 3, {.units = units_of_type({"Linear"})}) == expected);
      CHECK(train(c, 3, {.reshard_ranks = 1}) == expected);
      CHECK(train(c, 3, {.prefetch = false}) == expected);
      CHECK(train(c, 3, {.offload = Device::cpu(1)}) == expected);
      CHECK(train(c, 1, {.offload = Device::cpu(1)}) == expected);
    });
  }
}

TEST_CASE("hybrid sharding, too, and weights that stay with a few ranks after forward") {
  std::string expected;
  run_ranks(1, [&](Communicator& c) { expected = train(c, 0); });
  run_ranks(4, [&](Communicator& c) {
    for (int stage : {1, 2, 3}) CHECK(train(c, stage, {.shard_ranks = 2}) == expected);
    CHECK(train(c, 3, {.shard_ranks = 1}) == expected);
    CHECK(train(c, 3, {.shard_ranks = 4}) == expected);
    CHECK(train(c, 3, {.reshard_ranks = 2}) == expected);
  });
  run_ranks(8, [&](Communicator& c) {
    CHECK(train(c, 3, {.reshard_ranks = 4}) == expected);
    CHECK(train(c, 3, {.reshard_ranks = 2, .shard_ranks = 4}) == expected);
  });
}

/// A small convolutional network in the manner of LeNet.
struct ConvNet : nn::Module {
  nn::Conv2d conv1{1, 4, 5}, conv2{4, 6, 5};
  nn::MaxPool2d pool{2};
  nn::Linear fc1{96, 50}, fc2{50, 10};
  CAPSTAN_MODULE(ConvNet, conv1, conv2, pool, fc1, fc2)
  Tensor forward(const Tensor& images) {
    const Tensor x = pool(relu(conv2(pool(relu(conv1(images))))));
    return fc2(relu(fc1(flatten(x, 1))));
  }
};

/// In units of its two larger layers, with momentum.
std::string train_conv_net(Communicator& c, int stage) {
  manual_seed(1);
  ConvNet model;
  const auto path =
      strategy(model, c, stage, {.units = units_of_size(600), .virtual_shards = kShards});
  optim::Sgd sgd(path->parameters(), {.momentum = 0.9});
  const int64_t passes = kShards / c.size();
  for (int64_t step = 0; step < 20; ++step) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      const Samples s = samples(step, c.rank() * passes + pass, 2, 28 * 28, 10);
      const Tensor images = reshape(s.x, {2, 1, 28, 28});
      path->backward(cross_entropy(model(images), s.y), 2,
                     pass + 1 == passes ? Sync::yes : Sync::no);
    }
    sgd.step(0.01);
    path->after_step();
    sgd.zero_grad();
  }
  return hash_of(model, *path);
}

TEST_CASE("a convolutional network on 1, 2 and 4 ranks") {
  std::string expected;
  run_ranks(1, [&](Communicator& c) { expected = train_conv_net(c, 0); });
  for (int ranks : {1, 2, 4}) {
    for (int stage : {1, 2, 3}) {
      run_ranks(ranks, [&](Communicator& c) { CHECK(train_conv_net(c, stage) == expected); });
    }
  }
}

}  // namespace
}  // namespace capstan::distributed::testing
