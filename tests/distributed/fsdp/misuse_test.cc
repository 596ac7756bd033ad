// Every way of using Fsdp wrongly, and what happens to the other ranks.
#include <doctest/doctest.h>

#include <chrono>

#include "autograd/reduce.h"
#include "core/error.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

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
