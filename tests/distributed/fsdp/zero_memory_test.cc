// The formula of ZeRO's memory beside the paper, and beside the allocator's counts; the bytes that
// a step sends beside Ddp's.
#include "distributed/fsdp/zero_memory.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/wide.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("figure 1 of the paper: 7.5 billion parameters on 64 ranks, mixed precision, Adam") {
  const double expected[] = {120, 31.4, 16.6, 1.9};  // GB
  for (int stage : {0, 1, 2, 3}) {
    const ZeroMemory memory = zero_memory(7'500'000'000, 64, stage, {2, 2, 12});
    CHECK(memory.total() / 1e9 == doctest::Approx(expected[stage]).epsilon(0.02));
  }
  CHECK(zero_memory(100, 4, 1).optimizer == 200);
  CHECK(zero_memory(100, 4, 1).gradients == 400);
  CHECK(zero_memory(100, 4, 2).gradients == 100);
  CHECK(zero_memory(100, 4, 2).weights == 400);
  CHECK(zero_memory(100, 4, 3).total() == 400);
  CHECK_THROWS_AS(zero_memory(1, 1, 4), ValueError);
  CHECK_THROWS_AS(zero_memory(1, 1, -1), ValueError);
  CHECK_THROWS_AS(zero_memory(1, 0, 1), ValueError);
  CHECK_THROWS_AS(zero_memory(-1, 1, 1), ValueError);
  CHECK_THROWS_AS(zero_memory(1, 1, 1, {.gradients = -1}), ValueError);
}

TEST_CASE("what tensors hold at most is the formula, the units of a pass, and little else") {
  for (int ranks : {1, 2, 4}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(ranks);
      CAPTURE(stage);
      // Ranks of one host share the memory of Ddp's gradients, which no allocator counts.
      run_ranks(ranks, [&](Communicator& c) { check_peak(c, stage); }, {.share_memory = false});
    }
  }
}

TEST_CASE("a model that is made from a recipe never has memory as a whole") {
  run_ranks(4, [](Communicator& c) {
    const Device device = Device::cpu(25 + c.rank());
    Allocator& memory = allocator(device);
    Recipe recipe;
    Wide model = recipe.record([] { return Wide(); });
    const int64_t before = memory.stats().current;
    memory.reset_peak();
    const Fsdp fsdp(model, c, {.recipe = &recipe, .device = device});
    // A quarter of the weights, one of the gradients, a twelfth in a unit.
    CHECK(memory.stats().peak - before < 0.65 * 4 * model.parameter_count());
  });
}

TEST_CASE("stages 1 and 2 send what Ddp sends, stage 3 half as much again, to the byte") {
  for (int ranks : {1, 2, 3, 4}) {
    for (int stage : {1, 2, 3}) {
      run_ranks(ranks, [&](Communicator& c) {
        Tower model;
        Fsdp fsdp(model, c, {.stage = stage});
        optim::AdamW adamw(fsdp.parameters());
        const int64_t earlier = c.traffic().bytes_sent;
        c.all_reduce(zeros({8}, {.dtype = Dtype::float64})).wait();
        const int64_t share = c.traffic().bytes_sent - earlier;  // weight and loss, a line
        int64_t padded = 0;                                      // bytes of all units
        for (const Unit& unit : fsdp.units()) padded += unit.flats[0]->whole().bytes();
        const auto sent = [&] { return c.traffic().bytes_sent + fsdp.bytes_sent(); };
        for (int step = 0; step < 3; ++step) {
          const int64_t before = sent();
          const Samples s = samples(step, c.rank(), 3);
          fsdp.backward(cross_entropy(model(s.x), s.y), 3);
          adamw.step(0.01);
          fsdp.after_step();
          adamw.zero_grad();
          const int64_t once = (ranks - 1) * padded / ranks;  // a reduce-scatter or an all-gather
          CHECK(sent() - before == (stage < 3 ? 2 : 3) * once + share);
        }
      });
    }
  }
}

}  // namespace
}  // namespace capstan::distributed::testing
