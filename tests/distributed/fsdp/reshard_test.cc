// Weights that stay shared out among a few ranks between forward and backward: the same training,
// the traffic to the byte, the memory by the formula, and numbers that do not fit.
#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/training.h"
#include "tests/distributed/fsdp/wide.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("trains like one rank, on ranks with uneven shares or none") {
  for (const auto& [ranks, among, shard_ranks] :
       {std::array{4, 2, 0}, {6, 2, 0}, {6, 3, 0}, {6, 6, 0}, {3, 1, 0}, {8, 2, 4}}) {
    CAPTURE(ranks);
    CAPTURE(among);
    manual_seed(5);
    const Floats expected = alone(ranks);
    run_ranks(ranks, [&, among = among, shard_ranks = shard_ranks](Communicator& c) {
      for (bool prefetch : {true, false}) {
        manual_seed(5 + c.rank());
        Tower model;
        const FsdpOptions options{
            .reshard_ranks = among, .prefetch = prefetch, .shard_ranks = shard_ranks};
        check_near(train(c, model, 3, options, uneven), expected);
      }
    });
  }
}

TEST_CASE("units that run twice or again in backward, with frozen and tied parameters") {
  const auto count = [](int, int64_t, int64_t) { return int64_t{3}; };
  run_ranks(4, [&](Communicator& c) {
    manual_seed(2);
    Odd whole;
    const Floats expected = train(c, whole, 0, {}, count);
    for (const UnitPolicy& units : {repeated_units(), units_of_type({"Block", "Linear"})}) {
      manual_seed(2);
      Odd model;
      check_near(train(c, model, 3, {.units = units, .reshard_ranks = 2}, count), expected);
    }
  });
}

TEST_CASE("a forward pass without a backward, and a look at the weights between the two") {
  run_ranks(4, [](Communicator& c) {
    manual_seed(8);
    Tower model, twin = model.clone();
    Fsdp fsdp(model, c, {.reshard_ranks = 2});
    Ddp ddp(twin, c);
    optim::Sgd sharded(fsdp.parameters(), {}), whole(twin.parameters(), {});
    for (int64_t step = 0; step < 3; ++step) {
      const Samples s = samples(step, c.rank(), 3);
      model(s.x);  // recorded, and not used
      const Tensor loss = cross_entropy(model(s.x), s.y);
      {
        const auto full = fsdp.full_parameters();
        check_near(weights_of(model), weights_of(twin));
      }
      fsdp.backward(loss, 3);
      ddp.backward(cross_entropy(twin(s.x), s.y), 3);
      sharded.step(0.1);
      whole.step(0.1);
      fsdp.after_step();
      sharded.zero_grad();
      whole.zero_grad();
    }
  });
}

TEST_CASE("what a step sends, to the byte") {
  for (const auto& [ranks, among] : {std::array{2, 1}, {4, 1}, {4, 2}, {4, 4}, {6, 2}, {6, 3}}) {
    CAPTURE(ranks);
    CAPTURE(among);
    run_ranks(ranks, [&, ranks = ranks, among = among](Communicator& c) {
      Tower model;
      Fsdp fsdp(model, c, {.reshard_ranks = among});
      optim::Sgd sgd(fsdp.parameters());
      int64_t bytes = 0;  // of all units, padded
      for (const Unit& unit : fsdp.units()) bytes += unit.flats[0]->whole().bytes();
      for (int step = 0; step < 3; ++step) {
        const int64_t before = fsdp.bytes_sent();
        const Samples s = samples(step, c.rank(), 3);
        fsdp.backward(cross_entropy(model(s.x), s.y), 3);
        sgd.zero_grad();
        const int64_t first = (ranks - 1) * bytes / ranks, again = (among - 1) * bytes / among;
        CHECK(fsdp.bytes_sent() - before == first + again);
      }
    });
  }
}

TEST_CASE("what tensors hold at most: a part of the weights more, until backward is done") {
  for (const auto& [ranks, among] : {std::array{4, 2}, {6, 2}, {6, 3}}) {
    CAPTURE(ranks);
    CAPTURE(among);
    run_ranks(ranks, [&, ranks = ranks, among = among](Communicator& c) {
      const double weights = 4.0 * static_cast<double>(Wide().parameter_count());
      check_peak(c, 3, {.reshard_ranks = among}, weights / among);
    });
  }
}

TEST_CASE("groups that do not fit are refused on every rank") {
  run_ranks(4, [](Communicator& c) {
    Tower model;
    const auto refused = [&](const FsdpOptions& options, const char* text) {
      CHECK_THROWS_WITH_AS(Fsdp(model, c, options), doctest::Contains(text), SharedError);
    };
    refused({.reshard_ranks = 3},
            "weights that 4 ranks share out cannot be shared out among "
            "groups of 3");
    refused({.reshard_ranks = 8}, "groups of 8");
    refused({.reshard_ranks = -1}, "groups of -1");
    refused({.reshard_ranks = 4, .shard_ranks = 2}, "weights that 2 ranks share out");
    refused({.stage = 2, .reshard_ranks = 2},
            "[fsdp] reshard_ranks is of stage 3: in stage 2 weights are always whole");
    refused({.reshard_ranks = c.rank() < 2 ? 1 : 2}, "the options of Fsdp");
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
