// Passes that take turns, between hold() and let_go().
#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

constexpr int64_t kShards = 8;

/// The weights after some steps of passes with 0 to 4 samples. Held, all forward passes of a step
/// come before the first backward.
std::string train(Communicator& c, int stage, bool held) {
  manual_seed(5);
  Tower model;
  const auto path = strategy(model, c, stage, {.virtual_shards = kShards});
  optim::AdamW adamw(path->parameters());
  const int64_t passes = kShards / c.size();
  for (int64_t step = 0; step < 6; ++step) {
    if (held) path->hold();
    std::vector<std::function<void()>> backwards;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t shard = c.rank() * passes + pass, count = (3 * shard + step) % 5;
      const Sync sync = pass + 1 == passes ? Sync::yes : Sync::no;
      if (count == 0) {
        backwards.push_back([&path, sync] { path->backward_without_data(sync); });
      } else {
        const Samples s = samples(step, shard, count);
        const Tensor loss = cross_entropy(model(s.x), s.y);
        backwards.push_back(
            [&path, loss, count, sync] { path->backward(loss, static_cast<double>(count), sync); });
      }
      if (held) continue;
      backwards.back()();
      backwards.clear();
    }
    for (const auto& run : backwards) run();
    if (held) path->let_go();
    adamw.step(0.01);
    path->after_step();
    adamw.zero_grad();
  }
  return hash_of(model, *path);
}

TEST_CASE("passes that take turns give the bits of passes that do not") {
  std::string expected;
  run_ranks(1, [&](Communicator& c) { expected = train(c, 0, false); });
  for (int ranks : {1, 2, 4, 8}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(ranks);
      CAPTURE(stage);
      run_ranks(ranks, [&](Communicator& c) { CHECK(train(c, stage, true) == expected); });
    }
  }
}

TEST_CASE("held, every unit is gathered once, there when it is waited for, and gone afterwards") {
  run_ranks(3, [](Communicator& c) {
    Tower model;
    Fsdp fsdp(model, c);
    optim::AdamW adamw(fsdp.parameters());
    const auto gathered = [&] {
      int units = 0;
      for (const Unit& unit : fsdp.units()) units += unit.flats[0]->is_gathered();
      return units;
    };
    int64_t padded = 0;  // bytes of all units
    for (const Unit& unit : fsdp.units()) padded += unit.flats[0]->whole().bytes();
    const auto loss = [&](int64_t pass) {
      const Samples s = samples(pass, c.rank(), 3);
      return cross_entropy(model(s.x), s.y);
    };
    for (int step = 0; step < 2; ++step) {
      const int64_t before = fsdp.bytes_sent();
      CHECK(gathered() == 0);
      fsdp.hold();
      fsdp.hold();  // one in another
      fsdp.wait_for(model.blocks[1].up.bias.value());
      CHECK(model.blocks[1].up.bias->to_vector<float>().size() == 17);
      const Tensor first = loss(0), second = loss(1);
      fsdp.backward(first, 3, Sync::no);
      fsdp.backward(second, 3);
      fsdp.let_go();
      CHECK(gathered() == 4);
      fsdp.let_go();
      CHECK(gathered() == 0);
      CHECK(fsdp.bytes_sent() - before == padded * 2 / 3);
      adamw.step(0.01);
      fsdp.after_step();
      adamw.zero_grad();
    }
    CHECK_THROWS_WITH_AS(fsdp.let_go(), doctest::Contains("nothing is held"), ValueError);
    fsdp.backward(loss(2), 3);  // and all is as it was
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
