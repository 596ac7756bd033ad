// Sharded training across processes: the bits of one process under Ddp.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "distributed/comm/mpi.h"
#include "distributed/comm/self.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

std::string train(Communicator& c, int stage) {
  constexpr int64_t kShards = 4;
  manual_seed(c.rank());
  Tower model;
  const auto path = strategy(model, c, stage, {.virtual_shards = kShards});
  optim::AdamW adamw(path->parameters());
  const int64_t passes = kShards / c.size();
  for (int64_t step = 0; step < 10; ++step) {
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
  const std::string alone = train(*make_self(), 0);
  for (bool share : {true, false}) {
    const auto all = make_mpi({.share_memory = share});
    // Virtual shards want a power of two: the first 2 of 3 ranks, the first 4 of 5.
    const int used =
        std::min(4, static_cast<int>(std::bit_floor(static_cast<unsigned>(all->size()))));
    const auto c = all->split(all->rank() < used ? 0 : -1);
    if (!c) continue;
    for (int stage : {0, 1, 2, 3}) CHECK(train(*c, stage) == alone);
  }
}

}  // namespace
}  // namespace capstan::distributed::testing
