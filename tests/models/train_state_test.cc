// Tests that checkpoints survive crashes, and that damaged or foreign ones are refused.
#include "models/train_state.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "core/random.h"
#include "core/sha256.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "models/image_task.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using capstan::testing::write_file;
namespace fs = std::filesystem;

namespace {

/// A run of the MLP with SGD, without the training.
struct Run {
  Classifier model = make_image_model("mlp");
  optim::Sgd optimizer{model.module().parameters(), {.momentum = 0.9}};
  TrainState state{model.module(), optimizer, {"mlp", "sgd", 3, 1000}};

  explicit Run(int64_t step = 0) {
    state.step = step;
    state.samples = 32 * step;
  }
  void load(const std::string& folder) { state.load(folder, *distributed::make_self()); }
  std::string sum() { return weights_sha256(model.module()); }
};

void refuse(Run& run, const std::string& folder, const std::string& text) {
  std::string message = "nothing was thrown";
  try {
    run.load(folder);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK_MESSAGE(message.find(text) != std::string::npos, message);
}

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file(path, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("a checkpoint gives back weights, optimizer state and position, on every rank") {
  const TemporaryFolder folder;
  manual_seed(1);
  Run saved(7);
  copy_elements(full({512}, 0.25), saved.optimizer.state()[2].second);  // fc1.bias.momentum
  saved.state.gradient_order = {5, 4, 3, 2, 1, 0};
  saved.state.save(folder.path());
  distributed::run_ranks(2, [&](distributed::Communicator& communicator) {
    manual_seed(100 + communicator.rank());
    Run run;
    REQUIRE(run.sum() != saved.sum());
    // Only rank 0 needs the folder.
    run.state.load(communicator.rank() == 0 ? folder.path() : "/nowhere", communicator);
    // One copy of the model goes over the wires: its momentum here, its weights with the Ddp.
    const int64_t sent = communicator.traffic().bytes_sent;
    CHECK(sent < 4 * run.model.module().parameter_count() + 10'000);
    const distributed::Ddp ddp(run.model.module(), communicator);
    CHECK(run.sum() == saved.sum());
    CHECK(run.state.step == 7);
    CHECK(run.state.samples == 7 * 32);
    CHECK(run.state.gradient_order == saved.state.gradient_order);
    CHECK(run.optimizer.state()[2].second.to_vector<float>() == std::vector<float>(512, 0.25));
  });
}

TEST_CASE("a crash at any moment of a save leaves the checkpoint before it") {
  const TemporaryFolder folder;
  Run run(1);
  run.state.save(folder.path());
  const std::string first = read_file(folder.file("latest.json"));
  run.state.step = 2;
  run.state.save(folder.path());
  const std::string second = read_file(folder.file("latest.json"));
  CHECK(first.find("\"slot\": \"a\"") != std::string::npos);
  CHECK(second.find("\"slot\": \"b\"") != std::string::npos);

  // The third save goes to slot a. Before its manifest is in place, that slot may hold anything.
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    write_file(folder.file("a/") + file, "half a fi");
    Run resumed;
    resumed.load(folder.path());
    CHECK(resumed.state.step == 2);
  }
  run.state.step = 3;
  run.state.save(folder.path());
  Run resumed;
  resumed.load(folder.path());
  CHECK(resumed.state.step == 3);
  CHECK(folder.count() == 3);  // two slots and the manifest
}

TEST_CASE("a damaged checkpoint is refused") {
  const TemporaryFolder folder;
  Run run(1);
  refuse(run, folder.path(), "there is no checkpoint in " + folder.path());
  run.state.save(folder.path());
  const std::string weights = folder.file("a/model.safetensors");
  const std::string bytes = read_file(weights), manifest = read_file(folder.file("latest.json"));

  write_file(weights, bytes.substr(0, bytes.size() - 1));
  refuse(run, folder.path(), "model.safetensors is damaged: expected sha256 ");
  std::string changed = bytes;
  changed.back() ^= 1;
  write_file(weights, changed);
  refuse(run, folder.path(), "model.safetensors is damaged: expected sha256 ");
  fs::remove(weights);
  refuse(run, folder.path(), "cannot read " + weights);
  write_file(weights, bytes);
  run.load(folder.path());

  write_file(folder.file("latest.json"), manifest.substr(0, manifest.size() / 2));
  refuse(run, folder.path(), "latest.json is not a manifest");
  write_file(folder.file("latest.json"), "[]");
  refuse(run, folder.path(), "latest.json is damaged");
  write_file(folder.file("latest.json"), manifest);
  replace_in(folder.file("latest.json"), "\"step\": 1,", "\"step\": 2,");
  refuse(run, folder.path(), "latest.json is damaged: expected sha256 ");

  // Not even a right checksum makes nonsense acceptable.
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = nlohmann::json::parse(manifest);
    changed[key] = value;
    changed.erase("manifest_sha256");
    const std::string text = changed.dump();
    changed["manifest_sha256"] = sha256_hex(std::as_bytes(std::span(text)));
    write_file(folder.file("latest.json"), changed.dump());
  };
  with("step", 1);
  run.load(folder.path());
  with("step", "one");
  refuse(run, folder.path(), "latest.json is damaged: ");
  with("slot", "../a");
  refuse(run, folder.path(), "no slot is named '../a'");
  with("sha256", {{"pictures", 3}});
  refuse(run, folder.path(), "latest.json is damaged: ");
  with("format", 1);
  refuse(run, folder.path(), "its format is 1, this run's is 2");
}

TEST_CASE("folders where files should be, and files where folders should be, are named") {
  const TemporaryFolder folder;
  write_file(folder.file("file"), "");
  Run run(1);
  refuse(run, folder.file("file"), folder.file("file") + " is not a folder");
  CHECK_THROWS_WITH_AS(TrainState::prepare(folder.file("file")),
                       doctest::Contains("cannot make the folder "), IoError);
  run.state.save(folder.path());
  for (const char* name : {"a/optimizer.safetensors", "latest.json"}) {
    fs::remove(folder.file(name));
    refuse(run, folder.path(), name == std::string("latest.json") ? "it has no latest.json" : name);
    fs::create_directories(folder.file(name));
    refuse(run, folder.path(), "cannot read " + folder.file(name) + ": Is a directory");
  }
}

TEST_CASE("a file that cannot be opened is named") {
  const TemporaryFolder folder;
  Run run(1);
  run.state.save(folder.path());
  const auto alone = distributed::make_self();
  CHECK_THROWS_WITH_AS(testing::without_files([&] { run.state.load(folder.path(), *alone); }),
                       doctest::Contains("latest.json: Too many open files"), Error);
}

TEST_CASE("a save removes what killed ones left") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("a"));
  fs::create_directories(folder.file("b"));
  for (const char* name : {"latest.json", "a/model.safetensors", "a/optimizer.safetensors",
                           "b/model.safetensors", "b/optimizer.safetensors"}) {
    write_file(folder.file(name) + ".4321-7.tmp", "half a fi");
  }
  write_file(folder.file("notes.tmp"), "mine");
  Run(1).state.save(folder.path());
  int64_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    files += entry.is_regular_file();
  }
  CHECK(files == 4);  // the manifest, two files in slot a, and the notes
}

TEST_CASE("a checkpoint of another run is refused") {
  const TemporaryFolder folder;
  Run(1).state.save(folder.path());
  Run run;
  run.state.run.model = "lenet";
  refuse(run, folder.path(), "its model is mlp, this run's is lenet");
  run.state.run = {"mlp", "adamw", 3, 1000};
  refuse(run, folder.path(), "its optimizer is sgd, this run's is adamw");
  run.state.run = {"mlp", "sgd", 4, 1000};
  refuse(run, folder.path(), "its seed is 3, this run's is 4");
  run.state.run = {"mlp", "sgd", 3, 2000};
  refuse(run, folder.path(), "its number of training samples is 1000, this run's is 2000");

  // Not even the names in the manifest make another model or optimizer fit.
  const Classifier lenet = make_image_model("lenet");
  optim::Sgd sgd(lenet.module().parameters(), {.momentum = 0.9});
  TrainState foreign{lenet.module(), sgd, {"mlp", "sgd", 3, 1000}};
  CHECK_THROWS_WITH_AS(foreign.load(folder.path(), *distributed::make_self()),
                       doctest::Contains("the state is of another model"), Error);
  optim::AdamW adamw(run.model.module().parameters());
  TrainState other{run.model.module(), adamw, {"mlp", "sgd", 3, 1000}};
  CHECK_THROWS_WITH_AS(other.load(folder.path(), *distributed::make_self()),
                       doctest::Contains("the state is of another optimizer"), Error);
}

TEST_CASE("a save that fails says so and keeps what was there") {
  const TemporaryFolder folder;
  write_file(folder.file("file"), "");
  Run run(1);
  CHECK_THROWS_AS(run.state.save(folder.file("file")), IoError);
  run.state.save(folder.path());
  fs::create_directories(folder.file("b/model.safetensors"));  // in the way of the next save
  run.state.step = 2;
  CHECK_THROWS_AS(run.state.save(folder.path()), IoError);
  Run resumed;
  resumed.load(folder.path());
  CHECK(resumed.state.step == 1);
}
