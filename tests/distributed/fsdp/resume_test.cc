// A run is saved under one stage and continued under another, on other ranks, with the weights of a
// run that was never stopped: trained ones, tied ones and frozen ones.
#include <doctest/doctest.h>

#include <set>

#include "distributed/checkpoint/load.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/pieces.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"
#include "tests/testing/files.h"

namespace capstan::distributed::testing {
namespace {

using capstan::testing::TemporaryFolder;

constexpr int64_t kShards = 4;

/// A model with frozen parameters and what trains it.
struct Run {
  Run(Communicator& c, int stage, uint64_t seed) : ranks(c) {
    manual_seed(seed);
    model = Odd();
    path = strategy(model, c, stage, {.virtual_shards = kShards});
    sgd = std::make_unique<optim::Sgd>(path->parameters(), optim::SgdOptions{.momentum = 0.9});
  }

  void train(int64_t from, int64_t to) {
    const int64_t passes = kShards / ranks.size();
    for (int64_t step = from; step < to; ++step) {
      for (int64_t pass = 0; pass < passes; ++pass) {
        const Samples s = samples(step, ranks.rank() * passes + pass, 3);
        path->backward(cross_entropy(model(s.x), s.y), 3,
                       pass + 1 == passes ? Sync::yes : Sync::no);
      }
      sgd->step(0.1);
      path->after_step();
      sgd->zero_grad();
    }
  }

  Groups groups() {
    return {{"model", pieces_of(*path, model)}, {"optimizer", pieces_of(*path, sgd->state())}};
  }

  Communicator& ranks;
  Odd model;
  std::unique_ptr<GradientPath> path;
  std::unique_ptr<optim::Sgd> sgd;
};

TEST_CASE("frozen parameters are saved and loaded in every stage, as those that are trained") {
  std::string expected;
  run_ranks(1, [&](Communicator& c) {
    Run run(c, 0, 1);
    run.train(0, 6);
    expected = hash_of(run.model, *run.path);
  });
  for (int saving : {0, 1, 2, 3}) {
    const TemporaryFolder folder;
    run_ranks(2, [&](Communicator& c) {
      Run run(c, saving, 1);
      run.train(0, 3);
      Saver saver(folder.path(), c);
      saver.save(run.groups());
      saver.finish();
    });
    for (int loading : {0, 1, 2, 3}) {
      for (int ranks : {1, 4}) {
        CAPTURE(saving);
        CAPTURE(loading);
        CAPTURE(ranks);
        run_ranks(ranks, [&](Communicator& c) {
          Run run(c, loading, 2);  // other numbers, frozen ones too
          load(folder.path(), run.groups(), c);
          run.path->after_step();
          run.train(3, 6);
          CHECK(hash_of(run.model, *run.path) == expected);
        });
      }
    }
  }
}

TEST_CASE("in stage 3 the ranks hold each frozen element once, before it on every rank") {
  for (int stage : {1, 3}) {
    run_ranks(3, [&](Communicator& c) {
      Odd model;
      const Fsdp fsdp(model, c, {.stage = stage});
      int64_t frozen = 0, held = 0;
      for (const auto& [_, parameter] : model.parameters()) {
        if (!parameter.requires_grad()) frozen += parameter.numel();
      }
      std::set<std::string> trained;
      for (const auto& [name, _] : fsdp.parameters()) trained.insert(name);
      for (const Piece& piece : pieces_of(fsdp, model)) {
        check(piece);
        if (!trained.contains(piece.name)) held += piece.region.count();
      }
      const Tensor all = full({}, static_cast<double>(held), {.dtype = Dtype::int64});
      c.all_reduce(all).wait();
      CHECK(frozen > 0);
      CHECK(all.item<int64_t>() == (stage == 3 ? frozen : 3 * frozen));
    });
  }
}

}  // namespace
}  // namespace capstan::distributed::testing
