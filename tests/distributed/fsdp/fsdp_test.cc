// Fsdp beside one rank with the whole batch, what it shares out, and every way of using it wrongly.
#include "distributed/fsdp/fsdp.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "autograd/reduce.h"
#include "core/error.h"
#include "distributed/comm/self.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

using Floats = std::vector<float>;

Floats weights_of(nn::Module& model) {
  Floats all;
  for (const auto& [_, parameter] : model.parameters()) {
    for (float value : parameter.to_vector<float>()) all.push_back(value);
  }
  return all;
}

void check_near(const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
  CHECK(worst < 1e-5);
}

/// Runs steps of two passes under Sgd; `count(rank, step, pass)` samples on each rank.
template <class Model, class Count>
Floats train(Communicator& c, Model& model, int stage, const FsdpOptions& options,
             const Count& count) {
  const auto path = strategy(model, c, stage, options);
  optim::Sgd sgd(path->parameters(), {.momentum = 0.9});
  for (int64_t step = 0; step < 6; ++step) {
    for (int64_t pass : {0, 1}) {
      const Sync sync = pass == 1 ? Sync::yes : Sync::no;
      const int64_t here = count(c.rank(), step, pass);
      if (here == 0) {
        path->backward_without_data(sync);
        continue;
      }
      const Samples s = samples(step, 10 * c.rank() + pass, here);
      path->backward(cross_entropy(model(s.x), s.y), static_cast<double>(here), sync);
    }
    path->clip_grad_norm(0.7);
    sgd.step(0.1);
    path->after_step();
    sgd.zero_grad();
  }
  if (stage == 0) return weights_of(model);
  const auto full = dynamic_cast<Fsdp&>(*path).full_parameters();
  return weights_of(model);
}

int64_t uneven(int rank, int64_t step, int64_t pass) { return (2 * rank + step + 3 * pass) % 4; }

/// The same steps on one rank: Ddp runs every rank's passes, one after the other.
Floats alone(int ranks) {
  Tower model;
  const auto self = make_self();
  Ddp ddp(model, *self);
  optim::Sgd sgd(model.parameters(), {.momentum = 0.9});
  for (int64_t step = 0; step < 6; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int64_t pass : {0, 1}) {
        const int64_t here = uneven(rank, step, pass);
        if (here == 0) continue;
        const Samples s = samples(step, 10 * rank + pass, here);
        ddp.backward(cross_entropy(model(s.x), s.y), static_cast<double>(here), Sync::no);
      }
    }
    ddp.backward_without_data();
    ddp.clip_grad_norm(0.7);
    sgd.step(0.1);
    sgd.zero_grad();
  }
  return weights_of(model);
}

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
      check_near(train(c, other, 3, {.reshard_after_forward = false}, count), expected);
    });
  }
}

TEST_CASE("the norm of all gradients counts each element once") {
  run_ranks(4, [](Communicator& c) {
    for (int shard_ranks : {0, 2}) {
      manual_seed(3);
      Tower model, twin = model.clone();
      const Samples s = samples(0, 0, 4);
      backward(cross_entropy(twin(s.x), s.y));
      const double expected = optim::grad_norm(twin.parameters());
      Fsdp fsdp(model, c, {.shard_ranks = shard_ranks});
      fsdp.backward(cross_entropy(model(s.x), s.y), 4);
      CHECK(fsdp.loss() == doctest::Approx(cross_entropy(twin(s.x), s.y).item<double>()));
      CHECK(fsdp.clip_grad_norm(expected / 2) == doctest::Approx(expected).epsilon(1e-6));
      CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(expected / 2).epsilon(1e-5));
      CHECK_THROWS_AS(fsdp.clip_grad_norm(0), ValueError);
      for (const auto& [_, part] : fsdp.parameters()) {
        if (c.rank() % 2 == 1) fill_elements(part.grad(), std::nan(""));
      }
      CHECK_THROWS_WITH_AS(fsdp.clip_grad_norm(1), doctest::Contains("' is not finite"),
                           SharedError);
    }
  });
}

TEST_CASE("one rank's overflow keeps all ranks from stepping") {
  run_ranks(3, [](Communicator& c) {
    Tower model;
    Fsdp fsdp(model, c, {.stage = 2});
    const optim::GradScaler scaler({.start = 4});
    const Samples s = samples(0, c.rank(), 3);
    fsdp.backward(scaler.scale(cross_entropy(model(s.x), s.y)), 3);
    const double norm = fsdp.clip_grad_norm(1e9);
    CHECK(fsdp.unscale(scaler));
    CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(norm / 4));
    for (const auto& [_, part] : fsdp.parameters()) {
      if (c.rank() == 1) fill_elements(part.grad(), INFINITY);
    }
    CHECK(!fsdp.unscale(scaler));
  });
}

TEST_CASE("half precision: sums in float32 on request, master weights of the shards") {
  const auto train_half = [](Communicator& c, int stage, std::optional<Dtype> sums) {
    manual_seed(4);
    Tower model;
    model.to(Dtype::bfloat16);
    FsdpOptions options{.reduce_dtype = sums};
    const auto path = strategy(model, c, stage, options);
    optim::AdamW adamw(path->parameters());
    for (int64_t step = 0; step < 30; ++step) {
      const Samples s = samples(0, c.rank(), 4);
      path->backward(cross_entropy(model(cast(s.x, Dtype::bfloat16)), s.y), 4);
      adamw.step(0.01);
      path->after_step();
      adamw.zero_grad();
    }
    return path->loss();
  };
  run_ranks(2, [&](Communicator& c) {
    const double expected = train_half(c, 0, {});
    CHECK(expected < 1);
    for (int stage : {1, 2, 3}) {
      CHECK(train_half(c, stage, {}) == doctest::Approx(expected).epsilon(0.1));
      CHECK(train_half(c, stage, Dtype::float32) == doctest::Approx(expected).epsilon(0.1));
    }
  });
}

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

TEST_CASE("after the first steps nothing asks the system for memory") {
  run_ranks(2, [](Communicator& c) {
    const Device device = Device::cpu(10 + c.rank());
    Tower model;
    model.to(device);
    Fsdp fsdp(model, c);
    optim::AdamW adamw(fsdp.parameters());
    int64_t calls = 0;
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 3) calls = memory_stats(device).system_calls;
      const Samples s = samples(step, c.rank(), 4);
      const Tensor x = empty(s.x.shape(), {.device = device}),
                   y = empty(s.y.shape(), {Dtype::int64, device});
      copy_elements(s.x, x);
      copy_elements(s.y, y);
      fsdp.backward(cross_entropy(model(x), y), 4);
      adamw.step(0.01);
      fsdp.after_step();
      adamw.zero_grad();
    }
    CHECK(memory_stats(device).system_calls == calls);
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

TEST_CASE("using it wrongly") {
  run_ranks(2, [](Communicator& c) {
    const Samples s = samples(0, c.rank(), 3);
    for (int stage : {1, 2, 3}) {
      CAPTURE(stage);
      Tower model;
      Fsdp fsdp(model, c, {.stage = stage});
      optim::Sgd sgd(fsdp.parameters(), {});
      const auto loss = [&] { return cross_entropy(model(s.x), s.y); };
      // A step on gradients that were not reduced.
      fsdp.backward(loss(), 3, Sync::no);
      CHECK_THROWS_AS(sgd.step(0.1), GradientError);
      // The window is given up; its gradients are forgotten.
      sgd.zero_grad();
      fsdp.backward(loss(), 3);
      const double norm = fsdp.clip_grad_norm(1e9);
      // A second window without zero_grad().
      CHECK_THROWS_WITH_AS(fsdp.backward(loss(), 3), doctest::Contains("last window"),
                           GradientError);
      sgd.zero_grad();
      fsdp.backward(loss(), 3);
      CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(norm).epsilon(1e-12));
      sgd.zero_grad();
      // Backward past the strategy.
      if (stage < 3) {
        backward(loss());
        CHECK_THROWS_AS(sgd.step(0.1), GradientError);
        CHECK_THROWS_WITH_AS(fsdp.backward(loss(), 3), doctest::Contains("did not run"),
                             GradientError);
        sgd.zero_grad();
      }
      // A step between forward and backward.
      fsdp.backward(loss(), 3);
      const Tensor late = loss();
      sgd.step(0.1);
      fsdp.after_step();
      sgd.zero_grad();
      CHECK_THROWS_WITH_AS(fsdp.backward(late, 3, Sync::no), doctest::Contains("changed in place"),
                           GradientError);
    }
  });
}

TEST_CASE("a rank that throws ends the passes of the others, wherever these are") {
  for (int where : {0, 1, 2}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto run = [&](Communicator& c) {
      Tower model;
      Fsdp fsdp(model, c);
      optim::Sgd sgd(fsdp.parameters(), {});
      for (int step = 0; step < 4; ++step) {
        const Samples s = samples(step, c.rank(), 3);
        const bool fails = c.rank() == 1 && step == 2;
        if (fails && where == 0) throw ValueError("no more samples");
        if (c.rank() == 2) {
          fsdp.backward_without_data();
        } else {
          const Tensor loss = cross_entropy(model(s.x), s.y);
          if (fails && where == 1) throw ValueError("no more samples");
          fsdp.backward(loss, 3);
        }
        if (fails && where == 2) throw ValueError("no more samples");
        sgd.step(0.1);
        fsdp.after_step();
        sgd.zero_grad();
      }
    };
    CHECK_THROWS_WITH_AS(run_ranks(3, run), "no more samples", ValueError);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  }
}

TEST_CASE("a forward pass without a backward leaves no old weights behind") {
  run_ranks(3, [](Communicator& c) {
    manual_seed(8);
    Tower model, twin = model.clone();
    Fsdp fsdp(model, c, {.reshard_after_forward = false});
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

/// Does not use its second block.
struct Lazy : nn::Module {
  nn::ModuleList<Block> blocks{2};
  CAPSTAN_MODULE(Lazy, blocks)
  Tensor forward(const Tensor& x) { return sum(blocks[0](x)); }
};

TEST_CASE("parameters that a loss does not use") {
  run_ranks(2, [](Communicator& c) {
    const Tensor x = ones({2, 9});
    for (int stage : {1, 2, 3}) {
      Lazy model;
      Fsdp strict(model, c, {.stage = stage});
      CHECK_THROWS_WITH_AS(strict.backward(model(x)), doctest::Contains("blocks.1.up.weight"),
                           GradientError);
      Lazy second;
      Fsdp fills(second, c, {.stage = stage, .unused = Unused::zero_fill});
      fills.backward(second(x));
      Lazy third;
      Fsdp skips(third, c, {.stage = stage, .unused = Unused::skip});
      skips.backward(third(x));
      for (size_t i = 0; i < fills.parameters().size(); ++i) {
        const bool used = fills.parameters()[i].first.starts_with("blocks.0");
        CHECK(fills.parameters()[i].second.has_grad());
        CHECK(skips.parameters()[i].second.has_grad() == used);
        if (used) continue;
        for (float g : fills.parameters()[i].second.grad().to_vector<float>()) CHECK(g == 0);
      }
    }
  });
}

TEST_CASE("options that make no sense are refused on every rank with the same text") {
  run_ranks(2, [](Communicator& c) {
    Tower model;
    const auto refused = [&](const FsdpOptions& options, const char* text) {
      CHECK_THROWS_WITH_AS(Fsdp(model, c, options), doctest::Contains(text), SharedError);
    };
    refused({.stage = 4}, "[fsdp] the stage is 1, 2 or 3, got 4");
    refused({.stage = 0}, "stage 0 is Ddp");
    refused({.units = units_of_type({"Gpt"})}, "no module of type 'Gpt'");
    refused({.shard_ranks = 3}, "[fsdp] 2 ranks cannot be divided into groups of 3");
    refused({.shard_ranks = -1}, "groups of -1");
    refused({.reduce_dtype = Dtype::int32}, "reduce_dtype");
    refused({.offload = Device::meta()}, "[fsdp] shards are offloaded to a CPU, not to meta");
    refused({.stage = 1 + c.rank()}, "the options of Fsdp");
    refused({.units = c.rank() == 0 ? repeated_units() : units_of_type({"Linear"})},
            "the units of Fsdp");
    refused({.virtual_shards = 3}, "virtual shards and ranks must be powers of two");
    Tower frozen;
    for (const auto& [_, parameter] : frozen.parameters()) require_grad(parameter, false);
    CHECK_THROWS_WITH_AS(Fsdp(frozen, c), doctest::Contains("no parameter to train"), SharedError);
    Tower split;
    split.out.to(Device::cpu(1));
    CHECK_THROWS_WITH_AS(Fsdp(split, c), doctest::Contains("'out.weight' is on cpu:1"),
                         SharedError);
    const Fsdp works(model, c);  // none of these has left anything behind
  });
}

TEST_CASE("a gradient that is not finite") {
  run_ranks(2, [](Communicator& c) {
    for (int stage : {1, 2, 3}) {
      Tower model;
      Fsdp fsdp(model, c, {.stage = stage, .check_nan = true});
      const double scale = c.rank() == 1 ? INFINITY : 1;
      const Tensor loss = sum(model(ones({2, 7}))) * scale;
      CHECK_THROWS_WITH_AS(fsdp.backward(loss), doctest::Contains("rank 1"), GradientError);
    }
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
