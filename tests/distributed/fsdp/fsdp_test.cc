// Fsdp beside one rank with the whole batch, and what it shares out.
#include "distributed/fsdp/fsdp.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/training.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("all stages train like one rank, on ranks with uneven shares or none") {
  for (int ranks : {1, 2, 3, 4, 6}) {
    CAPTURE(ranks);
    manual_seed(5);
    const Floats expected = alone(ranks);
    run_ranks(ranks, [&](Communicator& c) {
      for (int stage : {1, 2, 3}) {
        manual_seed(5 + c.rank());
        Tower model;
        check_near(train(c, model, stage, {}, uneven), expected);
      }
      if (ranks % 2 != 0) return;
      for (int stage : {1, 2, 3}) {
        manual_seed(5 + c.rank());
        Tower model;
        check_near(train(c, model, stage, {.shard_ranks = 2}, uneven), expected);
      }
    });
  }
}

TEST_CASE("the optimizer gets each element once, under the model's names") {
  for (int ranks : {1, 3, 8}) {
    run_ranks(ranks, [&](Communicator& c) {
      Tower model;
      std::map<std::string, int64_t> elements;
      std::vector<std::string> names;
      for (const auto& [name, parameter] : model.parameters()) {
        elements[name] = parameter.numel();
        names.push_back(name);
      }
      const Fsdp fsdp(model, c, {.stage = 2});
      size_t i = 0;
      int empty_parts = 0;
      const auto parameters = model.parameters();
      for (const auto& [name, part] : fsdp.parameters()) {
        CHECK(part.rank() == parameters[i].second.rank());  // as weight decay's rules expect
        CHECK(name == names[i++]);
        const Tensor total = full({}, part.numel(), {.dtype = Dtype::int64});
        c.all_reduce(total).wait();
        CHECK(total.item<int64_t>() == elements[name]);
        if (part.numel() == 0) ++empty_parts;
      }
      CHECK(i == names.size());
      if (ranks == 8) CHECK(empty_parts > 0);
      int64_t padded = 0;
      for (const Unit& unit : fsdp.units()) padded += unit.flats[0]->whole().numel();
      CHECK(padded < model.parameter_count() + 15 * (static_cast<int>(names.size()) + 4 * ranks));
    });
  }
}

TEST_CASE("stage 3 releases parameters, and gives them back to be looked at and written") {
  run_ranks(2, [](Communicator& c) {
    manual_seed(1);
    Tower model;
    const Floats before = weights_of(model);
    Fsdp fsdp(model, c);
    CHECK_THROWS_AS(weights_of(model), ValueError);
    {
      const auto full = fsdp.full_parameters();
      CHECK(weights_of(model) == before);
      const auto again = fsdp.full_parameters();  // they may be nested
    }
    CHECK_THROWS_AS(weights_of(model), ValueError);
    {
      const auto full = fsdp.full_parameters();
      for (const auto& [_, parameter] : model.parameters()) fill_elements(detach(parameter), 0.5);
    }
    for (const auto& [_, part] : fsdp.parameters()) {
      for (float value : part.to_vector<float>()) CHECK(value == 0.5);
    }
    const Samples s = samples(0, 0, 3);
    no_grad([&] { model(s.x); });
    CHECK_THROWS_AS(weights_of(model), ValueError);
    const auto full = fsdp.full_parameters();
    CHECK(weights_of(model) == Floats(before.size(), 0.5));
  });
}

TEST_CASE("frozen and tied parameters, units that run twice or again in backward") {
  Floats expected;
  const auto count = [](int, int64_t, int64_t) { return int64_t{3}; };
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Communicator& c) {
      for (int stage : {0, 1, 2, 3}) {
        CAPTURE(stage);
        manual_seed(2);
        Odd model;
        const Floats got = train(c, model, stage, {}, count);
        if (stage == 0 && c.rank() == 0) expected = got;
        c.barrier().wait();
        check_near(got, expected);
      }
      manual_seed(2);
      Odd model;
      check_near(train(c, model, 3, {.units = units_of_type({"Block", "Linear"})}, count),
                 expected);
      manual_seed(2);
      Odd other;
      check_near(train(c, other, 3, {.reshard_ranks = 1}, count), expected);
    });
  }
}

TEST_CASE("a forward pass without a backward leaves no old weights behind") {
  run_ranks(3, [](Communicator& c) {
    manual_seed(8);
    Tower model, twin = model.clone();
    Fsdp fsdp(model, c, {.reshard_ranks = 1});
    Ddp ddp(twin, c);
    optim::Sgd sharded(fsdp.parameters(), {}), whole(twin.parameters(), {});
    const Samples s = samples(0, 0, 3);
    fsdp.backward(cross_entropy(model(s.x), s.y), 3);
    ddp.backward(cross_entropy(twin(s.x), s.y), 3);
    model(s.x);  // recorded, and not used
    sharded.step(1);
    whole.step(1);
    fsdp.after_step();
    const Floats expected = twin(s.x).to_vector<float>();
    check_near(model(s.x).to_vector<float>(), expected);
    {
      const auto held = fsdp.full_parameters();
      sharded.step(1);
      whole.step(1);
      fsdp.after_step();
      check_near(weights_of(model), weights_of(twin));
    }
    check_near(model(s.x).to_vector<float>(), twin(s.x).to_vector<float>());
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
