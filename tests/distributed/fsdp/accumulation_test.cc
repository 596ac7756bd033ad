// Windows of several passes, each of which reduces at once: the gradients of one rank, in the
// memory of a single pass.
#include <doctest/doctest.h>

#include "autograd/reduce.h"
#include "core/error.h"
#include "tests/distributed/fsdp/training.h"
#include "tests/distributed/fsdp/wide.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("trains like one rank, on ranks with uneven shares or none") {
  for (int ranks : {1, 2, 3, 4, 6}) {
    CAPTURE(ranks);
    manual_seed(5);
    const Floats expected = alone(ranks);
    run_ranks(ranks, [&](Communicator& c) {
      const auto check = [&](int stage, FsdpOptions options) {
        options.reduce_each_pass = true;
        manual_seed(5 + c.rank());
        Tower model;
        check_near(train(c, model, stage, options, uneven), expected);
      };
      check(2, {});
      check(3, {});
      check(2, {.reduce_dtype = Dtype::float64});
      check(3, {.offload = Device::cpu(3)});
      if (ranks % 2 == 0) check(3, {.reshard_ranks = 2});
      if (ranks % 2 == 0) check(2, {.shard_ranks = 2});
    });
  }
}

TEST_CASE("on one rank, the bits of gradients that accumulate") {
  run_ranks(1, [](Communicator& c) {
    std::vector<Floats> weights;
    for (bool each : {false, true}) {
      manual_seed(5);
      Tower model;
      weights.push_back(train(c, model, 2, {.reduce_each_pass = each}, uneven));
    }
    CHECK(weights[0] == weights[1]);
  });
}

TEST_CASE("in half precision, means of passes with different weights") {
  run_ranks(2, [](Communicator& c) {
    for (int stage : {2, 3}) {
      std::vector<Floats> gradients;
      for (bool each : {false, true}) {
        manual_seed(4);
        Tower model;
        model.to(Dtype::bfloat16);
        Fsdp fsdp(model, c, {.stage = stage, .reduce_each_pass = each});
        for (int64_t pass : {0, 1, 2}) {
          const Samples s = samples(0, 3 * c.rank() + pass, 4);
          const Tensor loss = cross_entropy(model(cast(s.x, Dtype::bfloat16)), s.y);
          fsdp.backward(loss, static_cast<double>(1 + 7 * pass), pass == 2 ? Sync::yes : Sync::no);
        }
        Floats& all = gradients.emplace_back();
        for (const auto& [_, part] : fsdp.parameters()) {
          for (float g : part.grad().to_vector<float>()) all.push_back(g);
        }
      }
      double largest = 0, apart = 0;
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        largest = std::max(largest, std::abs(double{gradients[0][i]}));
        apart = std::max(apart, std::abs(double{gradients[0][i]} - gradients[1][i]));
      }
      CHECK(largest > 0.01);
      CHECK(apart < 0.02 * largest);
    }
  });
}

TEST_CASE("no gradients are kept whole between passes, and more is sent for it") {
  const double weights = 4.0 * static_cast<double>(Wide().parameter_count());
  for (int ranks : {2, 4}) {
    for (int stage : {2, 3}) {
      CAPTURE(ranks);
      CAPTURE(stage);
      run_ranks(ranks, [&](Communicator& c) {
        check_peak(c, stage, {.reduce_each_pass = true}, 0, 3);
        // Kept whole, they take the place of those of the units of a pass.
        check_peak(c, stage, {}, weights - Wide::kUnitsOfAPass, 3);

        Tower model;
        std::vector<int64_t> sent;
        for (bool each : {false, true}) {
          Fsdp fsdp(model, c, {.stage = 2, .reduce_each_pass = each});
          const Samples s = samples(0, c.rank(), 3);
          const int64_t before = c.traffic().bytes_sent;
          for (int pass : {0, 1, 2})
            fsdp.backward(cross_entropy(model(s.x), s.y), 3, pass == 2 ? Sync::yes : Sync::no);
          sent.push_back(c.traffic().bytes_sent - before);
        }
        CHECK(sent[1] == 3 * sent[0]);
      });
    }
  }
}

/// Uses the block that it is told to.
struct Choosy : nn::Module {
  nn::ModuleList<Block> blocks{3};
  CAPSTAN_MODULE(Choosy, blocks)
  Tensor forward(const Tensor& x, int block) { return sum(blocks[block](x)); }
};

TEST_CASE("what a window does not use is known when it ends") {
  run_ranks(2, [](Communicator& c) {
    const Tensor x = ones({2, 9});
    for (int stage : {2, 3}) {
      const auto run = [&](Fsdp& fsdp, Choosy& model, std::initializer_list<int> blocks) {
        size_t pass = 0;
        for (int block : blocks)
          fsdp.backward(model(x, block), 1, ++pass == blocks.size() ? Sync::yes : Sync::no);
      };
      Choosy model, second;
      Fsdp strict(model, c, {.stage = stage, .reduce_each_pass = true});
      run(strict, model, {0, 2, 1});
      optim::Sgd(strict.parameters()).zero_grad();
      CHECK_THROWS_WITH_AS(run(strict, model, {0, 2}), doctest::Contains("blocks.1.up.weight"),
                           GradientError);
      Fsdp skips(second, c, {.stage = stage, .reduce_each_pass = true, .unused = Unused::skip});
      run(skips, second, {0, 2});
      for (const auto& [name, part] : skips.parameters())
        CHECK(part.has_grad() == !name.starts_with("blocks.1"));
    }
  });
}

TEST_CASE("using it wrongly") {
  run_ranks(2, [](Communicator& c) {
    Tower model;
    const auto refused = [&](const FsdpOptions& options, const char* text) {
      CHECK_THROWS_WITH_AS(Fsdp(model, c, options), doctest::Contains(text), SharedError);
    };
    refused({.stage = 1, .reduce_each_pass = true}, "reduce_each_pass is of stages 2 and 3");
    refused({.reduce_each_pass = true, .virtual_shards = 2}, "the bits would depend on the ranks");
    refused({.reduce_each_pass = c.rank() == 0}, "the options of Fsdp");

    for (int stage : {2, 3}) {
      Tower trained;
      Fsdp fsdp(trained, c, {.stage = stage, .reduce_each_pass = true, .check_nan = true});
      optim::Sgd sgd(fsdp.parameters());
      const Samples s = samples(0, c.rank(), 3);
      const auto loss = [&] { return cross_entropy(trained(s.x), s.y); };
      // A step before the window is over; it is given up.
      fsdp.backward(loss(), 3, Sync::no);
      CHECK_THROWS_AS(sgd.step(0.1), GradientError);
      sgd.zero_grad();
      fsdp.backward(loss(), 3);
      const double norm = fsdp.clip_grad_norm(1e9);
      CHECK(fsdp.weight() == 6);
      sgd.zero_grad();
      // A window counts all of its passes, and the next one none of them.
      fsdp.backward(loss(), 3, Sync::no);
      fsdp.backward(loss(), 3);
      CHECK(fsdp.weight() == 12);
      CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(norm).epsilon(1e-6));
      sgd.zero_grad();
      // A gradient that is not finite is named by the pass that had it, and ends the window.
      CHECK_THROWS_WITH_AS(fsdp.backward(loss() * (c.rank() == 1 ? INFINITY : 1), 3, Sync::no),
                           doctest::Contains("rank 1"), GradientError);
      CHECK_THROWS_WITH_AS(fsdp.backward(loss(), 3), doctest::Contains("last window"),
                           GradientError);
      sgd.zero_grad();
      fsdp.backward(loss(), 3);
      CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(norm).epsilon(1e-6));
    }
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
