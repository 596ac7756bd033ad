// Tests that a run goes on where it was saved, and that a checkpoint of another run is refused. The
// format, damage and crashes are tested in tests/distributed/checkpoint.
#include "models/train_state.h"

#include <doctest/doctest.h>

#include "core/random.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "models/image_task.h"
#include "nn/state.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::TemporaryFolder;
using distributed::Communicator;

namespace {

/// A run of the MLP with SGD, without the training.
struct Run {
  Classifier model = make_image_model("mlp");
  optim::Sgd optimizer{model.module().parameters(), {.momentum = 0.9}};
  TrainState state{{"mlp", "sgd", 3, 1000}};

  explicit Run(int64_t step = 0) {
    state.step = step;
    state.samples = 32 * step;
  }
  distributed::Groups pieces() {
    return {{"model", distributed::whole(nn::state_dict(model.module()))},
            {"optimizer", distributed::whole(optimizer.state())}};
  }
  void save(const std::string& folder, Communicator& communicator) {
    distributed::Saver saver(folder, communicator);
    saver.save(pieces(), state.metadata());
    saver.finish();
  }
  void load(const std::string& folder, Communicator& communicator) {
    const distributed::Manifest saved = state.resume(folder, communicator);
    distributed::load(folder, saved, pieces(), communicator);
  }
  std::string sum() { return weights_sha256(model.module()); }
};

void refuse(TrainState state, const std::string& folder, const std::string& text) {
  distributed::run_ranks(2, [&](Communicator& c) {
    TrainState mine = state;
    CHECK_THROWS_WITH_AS(mine.resume(folder, c), doctest::Contains(text.c_str()),
                         distributed::SharedError);
  });
}

}  // namespace

TEST_CASE("a checkpoint gives back weights, optimizer state and position, on every rank") {
  const TemporaryFolder folder;
  std::string sum;
  for (const int savers : {1, 3}) {
    distributed::run_ranks(savers, [&](Communicator& c) {
      manual_seed(savers);
      Run run(7);
      copy_elements(full({512}, 0.25), run.optimizer.state()[2].second);  // fc1.bias.momentum
      run.state.gradient_order = {5, 4, 3, 2, 1, 0};
      run.save(folder.path(), c);
      if (c.rank() == 0) sum = run.sum();
    });
    distributed::run_ranks(2, [&](Communicator& c) {
      manual_seed(100 + c.rank());
      Run run;
      REQUIRE(run.sum() != sum);
      run.load(folder.path(), c);
      CHECK(run.sum() == sum);
      CHECK(run.state.step == 7);
      CHECK(run.state.samples == 7 * 32);
      CHECK(run.state.gradient_order == std::vector<int>{5, 4, 3, 2, 1, 0});
      CHECK(run.optimizer.state()[2].second.to_vector<float>() == std::vector<float>(512, 0.25));
    });
  }
}

TEST_CASE("a checkpoint of another run is refused") {
  const TemporaryFolder folder;
  const auto alone = distributed::make_self();
  refuse(Run().state, folder.path(), "there is no checkpoint in " + folder.path());
  Run run(1);
  run.save(folder.path(), *alone);
  refuse({{"lenet", "sgd", 3, 1000}}, folder.path(), "its model is mlp, this run's is lenet");
  refuse({{"mlp", "adamw", 3, 1000}}, folder.path(), "its optimizer is sgd, this run's is adamw");
  refuse({{"mlp", "sgd", 4, 1000}}, folder.path(), "its seed is 3, this run's is 4");
  refuse({{"mlp", "sgd", 3, 2000}}, folder.path(),
         "its number of training samples is 1000, this run's is 2000");

  // Not even the right names make another model or optimizer fit.
  const Classifier lenet = make_image_model("lenet");
  const optim::AdamW adamw(run.model.module().parameters());
  const auto load = [&](const char* group, const NamedTensors& tensors) {
    distributed::load(folder.path(), {{group, distributed::whole(tensors)}}, *alone);
  };
  CHECK_THROWS_WITH_AS(load("model", nn::state_dict(lenet.module())),
                       doctest::Contains("conv1.weight is not in its model"), Error);
  CHECK_THROWS_WITH_AS(load("optimizer", adamw.state()),
                       doctest::Contains("is not in its optimizer"), Error);
}

TEST_CASE("what a checkpoint says of its run is not believed") {
  const TemporaryFolder folder;
  const auto alone = distributed::make_self();
  const Run run(1);
  distributed::Saver saver(folder.path(), *alone, {.background = false});
  const auto with = [&](const char* name, const char* value) {
    Metadata entries = run.state.metadata();
    entries.erase(name);
    if (value) entries[name] = value;
    saver.save({}, entries);
  };
  with("step", nullptr);
  refuse(run.state, folder.path(), "is of another program: it has no step");
  for (const char* value : {"", "one", "-1", "1 ", "1.5", "99999999999999999999"}) {
    with("samples", value);
    refuse(run.state, folder.path(), std::string("its samples is '") + value + "'");
  }
  with("gradient_order", "1 -2");
  refuse(run.state, folder.path(), "its gradient_order is '1 -2'");
  with("gradient_order", "1  2");
  refuse(run.state, folder.path(), "its gradient_order is '1  2'");
  with("gradient_order", "");
  TrainState state{run.state.run};
  state.resume(folder.path(), *alone);
  CHECK(state.step == 1);
  CHECK(state.gradient_order.empty());
}
