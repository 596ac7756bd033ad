// Sharded training across processes: the bits of one process under Ddp with virtual shards, and its
// numbers without, on any number of them.
#include <doctest/doctest.h>

#include <bit>

#include "distributed/comm/mpi.h"
#include "tests/distributed/fsdp/training.h"

namespace capstan::distributed::testing {
namespace {

std::string hash_after_training(Communicator& c, int stage) {
  constexpr int64_t kShards = 8;
  manual_seed(c.rank());
  Tower model;
  const auto path = strategy(model, c, stage, {.virtual_shards = kShards});
  optim::AdamW adamw(path->parameters());
  const int64_t passes = kShards / c.size();
  for (int64_t step = 0; step < 5; ++step) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t shard = c.rank() * passes + pass, count = (shard + step) % 4;
      const Sync sync = pass + 1 == passes ? Sync::yes : Sync::no;
      const Samples s = samples(step, shard, count);
      if (count == 0) {
        path->backward_without_data(sync);
      } else {
        path->backward(cross_entropy(model(s.x), s.y), static_cast<double>(count), sync);
      }
    }
    path->clip_grad_norm(1);
    adamw.step(0.01);
    path->after_step();
    adamw.zero_grad();
  }
  return hash_of(model, *path);
}

TEST_CASE("processes train like one, to the last bit, in every stage") {
  const std::string expected = hash_after_training(*make_self(), 0);
  for (bool share : {true, false}) {
    const auto all = make_mpi({.share_memory = share});
    // Virtual shards want a power of two: the first 2 of 3 ranks, the first 4 of 6.
    const int used = static_cast<int>(std::bit_floor(static_cast<unsigned>(all->size())));
    const auto c = all->split(all->rank() < used ? 0 : -1);
    if (!c) continue;
    for (int stage : {0, 1, 2, 3}) CHECK(hash_after_training(*c, stage) == expected);
  }
}

TEST_CASE("any number of processes trains like one, in every stage and by every route") {
  const auto c = make_mpi();
  manual_seed(5);
  const Floats expected = alone(c->size());
  const auto check = [&](int stage, const FsdpOptions& options) {
    manual_seed(5 + c->rank());
    Tower model;
    check_near(train(*c, model, stage, options, uneven), expected);
  };
  for (int stage : {1, 2, 3}) check(stage, {});
  check(2, {.reduce_each_pass = true});
  check(3, {.reshard_ranks = 1});
  if (c->size() % 2 != 0) return;
  check(3, {.reshard_ranks = 2});
  check(3, {.reduce_each_pass = true, .shard_ranks = 2});
}

}  // namespace
}  // namespace capstan::distributed::testing
