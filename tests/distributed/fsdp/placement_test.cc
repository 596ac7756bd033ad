// Where tensors are: shards on another device, memory that is used again, models that begin on
// meta.
#include <doctest/doctest.h>

#include "autograd/reduce.h"
#include "core/error.h"
#include "tests/distributed/fsdp/training.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("shards may be on another device, and the optimizer with them") {
  run_ranks(2, [](Communicator& c) {
    Tower model;
    const Fsdp fsdp(model, c, {.offload = Device::cpu(5)});
    const optim::AdamW adamw(fsdp.parameters());
    for (const auto& [_, part] : fsdp.parameters()) CHECK(part.device() == Device::cpu(5));
    for (const auto& [name, state] : adamw.state()) {
      if (!name.ends_with(".steps")) CHECK(state.device() == Device::cpu(5));
    }
    for (const auto& [_, parameter] : model.parameters())
      CHECK(parameter.device() == Device::cpu(0));
  });
}

/// Requests of a device's allocator, and how many of them asked the system, in each of some steps.
struct Requests {
  std::vector<int64_t> all, of_system;
};

Requests requests_of_steps(Communicator& c, const FsdpOptions& options) {
  const Device device = Device::cpu(10 + c.rank());
  allocator(device).release_cache();
  Tower model;
  model.to(device);
  Fsdp fsdp(model, c, options);
  optim::AdamW adamw(fsdp.parameters());
  Requests requests;
  for (int64_t step = 0; step < 6; ++step) {
    const Samples s = samples(step, c.rank(), 4);
    const Tensor x = empty(s.x.shape(), {.device = device}),
                 y = empty(s.y.shape(), {Dtype::int64, device});
    copy_elements(s.x, x);
    copy_elements(s.y, y);
    const MemoryStats before = memory_stats(device);
    no_grad([&] { model(x); });
    fsdp.backward(cross_entropy(model(x), y), 4, Sync::no);
    fsdp.backward(cross_entropy(model(x), y), 4);
    adamw.step(0.01);
    fsdp.after_step();
    adamw.zero_grad();
    requests.all.push_back(memory_stats(device).allocations - before.allocations);
    requests.of_system.push_back(memory_stats(device).system_calls - before.system_calls);
  }
  return requests;
}

// Gathers among them: were each unit's memory not one that was there before, this would not hold.
TEST_CASE("from the second step on nothing asks the system for memory") {
  run_ranks(2, [](Communicator& c) {
    for (const FsdpOptions& options :
         {FsdpOptions{}, FsdpOptions{.prefetch = false}, FsdpOptions{.reshard_ranks = 1},
          FsdpOptions{.reduce_each_pass = true}, FsdpOptions{.stage = 2}}) {
      const Requests requests = requests_of_steps(c, options);
      CHECK(requests.of_system[0] > 0);
      for (size_t step = 1; step < requests.all.size(); ++step) {
        CAPTURE(step);
        CHECK(requests.all[step] > 0);
        CHECK(requests.of_system[step] == 0);
      }
    }
  });
  run_ranks(4, [](Communicator& c) {
    const Requests requests = requests_of_steps(c, {.reshard_ranks = 2});
    for (size_t step = 1; step < requests.all.size(); ++step) CHECK(requests.of_system[step] == 0);
  });
}

TEST_CASE("a model on meta is made shard by shard, with the numbers of one rank") {
  for (int ranks : {1, 3}) {
    for (int stage : {1, 2, 3}) {
      run_ranks(ranks, [&](Communicator& c) {
        manual_seed(11);
        Odd expected;
        manual_seed(11);
        Recipe recipe;
        Odd model = recipe.record([] { return Odd(); });
        CHECK(model.in.weight.device() == Device::meta());
        const Device device = Device::cpu(30 + c.rank());
        Fsdp fsdp(model, c, {.stage = stage, .recipe = &recipe, .device = device});
        {
          const auto full = fsdp.full_parameters();
          CHECK(weights_of(model) == weights_of(expected));
          CHECK(model.in.weight.device() == device);
        }
        CHECK(model.in.weight.requires_grad());
        CHECK(!model.blocks[0].up.weight.requires_grad());
        const Tensor x = full({2, 7}, 0.5, {.device = device});
        fsdp.backward(sum(model(x)));  // and it trains
        CHECK(fsdp.clip_grad_norm(1) > 0);
      });
    }
  }
  run_ranks(2, [](Communicator& c) {
    manual_seed(c.rank());
    Recipe recipe;
    Tower model = recipe.record([] { return Tower(); });
    CHECK_THROWS_WITH_AS(Fsdp(model, c, {.recipe = &recipe}), doctest::Contains("its seed, say"),
                         SharedError);
    CHECK_THROWS_WITH_AS(Fsdp(model, c), doctest::Contains("comes with the recipe"), SharedError);
    Tower real;
    CHECK_THROWS_WITH_AS(Fsdp(real, c, {.recipe = &recipe}),
                         doctest::Contains("comes with the recipe"), SharedError);
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
