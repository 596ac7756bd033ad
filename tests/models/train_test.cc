// Tests what a run of train() promises: one loss curve on any number of ranks, and resumes to the
// bit.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "models/image_task.h"
#include "models/train_state.h"
#include "tests/models/images.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::Head;
using capstan::testing::images;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using capstan::testing::write_file;

namespace {

// 520 samples: an epoch ends with a step of 8, which 3 ranks cannot share evenly.
const Head& training_set() {
  static const Head set(images(), 520);
  return set;
}

const Head& test_set() {
  static const Head set(images(), 37);
  return set;
}

ImageOptions small_run(int64_t steps) {
  ImageOptions options;
  options.global_batch = 32;
  options.epochs = 8;
  options.steps = steps;
  options.progress = "none";
  return options;
}

/// Trains on `ranks` threads and returns what rank 0 got, after a look at the others.
TrainResult train_on(int ranks, const ImageOptions& options) {
  std::vector<TrainResult> results(ranks);
  distributed::run_ranks(ranks, [&](distributed::Communicator& communicator) {
    std::ostringstream out;
    results[communicator.rank()] = train(options, communicator, training_set(), test_set(), out);
  });
  for (const TrainResult& result : results) {
    CHECK(result.weights_sha256 == results[0].weights_sha256);
    CHECK(result.test->correct == results[0].test->correct);
    CHECK(result.test->samples == 37);
  }
  return results[0];
}

/// The largest relative difference between two loss curves.
double difference(const TrainResult& a, const TrainResult& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  double largest = 0;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    largest = std::max(largest, std::abs(a.steps[i].loss - b.steps[i].loss) / b.steps[i].loss);
  }
  return largest;
}

}  // namespace

TEST_CASE("a fixed global batch gives the same losses and weights, to the bit, on any ranks") {
  for (const char* model : {"mlp", "lenet"}) {
    // Beyond the end of an epoch, where the 16 shards of a step have 8 samples.
    ImageOptions options = small_run(30);
    options.model = model;
    options.rate = 0.05;
    options.dropout = 0.2;
    options.clip = 1;
    options.bucket_mb = 0.5;
    const TrainResult alone = train_on(1, options);
    REQUIRE(alone.steps.size() == 30);
    CHECK(alone.steps.back().loss < alone.steps.front().loss);
    for (const auto& [ranks, accumulate] : {std::pair(2, 1), {4, 1}, {8, 2}, {1, 16}, {4, 4}}) {
      options.accumulate = accumulate;
      const TrainResult other = train_on(ranks, options);
      CAPTURE(model);
      CAPTURE(ranks);
      CHECK(difference(other, alone) == 0);
      CHECK(other.weights_sha256 == alone.weights_sha256);
    }
  }
}

TEST_CASE("a run that is stopped goes on, to the bit, on another number of ranks") {
  const TemporaryFolder folder;
  ImageOptions options = small_run(21);
  options.optimizer = "adamw";
  options.dropout = 0.3;
  const TrainResult whole = train_on(1, options);
  options.checkpoint = folder.path();
  for (const auto& [ranks, steps] : {std::pair(4, 5), {1, 18}, {2, 21}}) {
    options.steps = steps;
    const TrainResult part = train_on(ranks, options);
    options.resume = true;
    if (steps == 21) CHECK(part.weights_sha256 == whole.weights_sha256);
  }
}

/// Compares steps on several numbers of ranks, and with accumulation, to those of one rank, without
/// virtual shards: averages are exact, sums depend on their order by rounding.
void compare_curves(const ImageOptions& given, double limit) {
  ImageOptions options = given;
  options.global_batch = 16;
  options.reproducible = 0;
  const TrainResult alone = train_on(1, options);
  REQUIRE(std::ssize(alone.steps) == options.steps);
  CHECK(alone.steps.back().loss < 0.8 * alone.steps.front().loss);
  for (const auto& [ranks, accumulate] : {std::pair(2, 1), {4, 1}, {3, 1}, {1, 4}, {2, 2}}) {
    options.accumulate = accumulate;
    const double largest = difference(train_on(ranks, options), alone);
    MESSAGE(options.model, " in ", options.dtype, " on ", ranks, " ranks, accumulate ", accumulate,
            ": losses differ by at most ", largest);
    CHECK(largest < limit);
  }
}

TEST_CASE("without virtual shards, the loss curve depends on the ranks by rounding only") {
  SUBCASE("MLP, float32") {
    ImageOptions options = small_run(40);
    options.model = "mlp";
    options.rate = 0.01;
    compare_curves(options, 1e-5);
  }
  // (In float32 a different last bit decides, once in some thousand steps, whether a ReLU opens or
  // which pixel a pool takes, and moves the loss by 1e-4.)
  SUBCASE("LeNet, float64") {
    ImageOptions options = small_run(40);
    options.dtype = "float64";
    compare_curves(options, 1e-9);
  }
}

TEST_CASE("the batch of a rank, times ranks and accumulation, makes the global batch") {
  ImageOptions options = small_run(3);
  const TrainResult global = train_on(2, options);
  options.global_batch = std::nullopt;
  options.batch = 8;
  options.accumulate = 2;
  CHECK(difference(train_on(2, options), global) < 1e-5);
}

TEST_CASE("compressed gradients train as well, with all checks on") {
  ImageOptions options = small_run(60);
  options.model = "mlp";
  options.rate = 0.02;
  options.check_nan = true;
  options.check_replicas = 7;
  options.reproducible = 0;
  const TrainResult plain = train_on(3, options);
  options.reproducible = std::nullopt;
  for (const auto& [compress, limit] :
       {std::pair("bfloat16", 0.05), {"float16", 0.05}, {"powersgd", 0.5}}) {
    options.compress = compress;
    const TrainResult result = train_on(3, options);
    CAPTURE(options.compress);
    CHECK(result.weights_sha256 != plain.weights_sha256);
    MESSAGE(options.compress, ": losses differ by at most ", difference(result, plain), ", last ",
            result.steps.back().loss, " for ", plain.steps.back().loss);
    CHECK(difference(result, plain) < limit);
    CHECK(result.steps.back().loss < 0.8 * result.steps.front().loss);
  }
}

TEST_CASE("N + M steps are N steps, a save, a load and M steps, to the bit") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (int ranks : {1, 3}) {
      CAPTURE(optimizer);
      CAPTURE(ranks);
      const TemporaryFolder folder;
      ImageOptions options = small_run(21);
      options.optimizer = optimizer;
      options.dropout = 0.3;
      options.accumulate = 2;
      options.clip = 1;
      options.rate = 0.01;
      options.bucket_mb = 0.1;
      const TrainResult whole = train_on(ranks, options);

      options.checkpoint = folder.path();
      options.metrics = folder.file("metrics.jsonl");
      options.steps = 6;  // in the middle of the first epoch
      const TrainResult first = train_on(ranks, options);
      options.resume = true;
      options.steps = 19;  // and of the second
      train_on(ranks, options);
      options.steps = 21;
      const TrainResult last = train_on(ranks, options);

      CHECK(first.weights_sha256 != whole.weights_sha256);
      CHECK(last.weights_sha256 == whole.weights_sha256);
      CHECK(last.step == 21);
      REQUIRE(last.steps.size() == 21);
      for (size_t i = 0; i < 21; ++i) {
        CHECK(last.steps[i].loss == whole.steps[i].loss);
        CHECK(last.steps[i].rate == whole.steps[i].rate);
        CHECK(last.steps[i].gradient_norm == whole.steps[i].gradient_norm);
      }
    }
  }
}

TEST_CASE("in 16 bits a run learns, is the same on any number of ranks, and goes on where it was") {
  for (const bool autocast : {false, true}) {
    CAPTURE(autocast);
    const TemporaryFolder folder;
    ImageOptions options = small_run(30);
    options.autocast = autocast;
    if (!autocast) options.dtype = "bfloat16";
    options.reproducible = 16;
    const TrainResult alone = train_on(1, options);
    CHECK(alone.steps.back().loss < 0.8 * alone.steps.front().loss);
    CHECK(train_on(2, options).weights_sha256 == alone.weights_sha256);
    ImageOptions wide = small_run(30);
    wide.reproducible = 16;
    CHECK(alone.weights_sha256 != train_on(1, wide).weights_sha256);

    options.checkpoint = folder.path();
    options.metrics = folder.file("metrics.jsonl");
    options.steps = 17;
    train_on(2, options);
    options.resume = true;
    options.steps = 30;
    CHECK(train_on(1, options).weights_sha256 == alone.weights_sha256);
  }
}

TEST_CASE("what PowerSGD has yet to send is resumed to the last bit") {
  const TemporaryFolder folder;
  ImageOptions options = small_run(12);
  options.compress = "powersgd";
  const TrainResult whole = train_on(2, options);
  options.checkpoint = folder.path();
  options.steps = 5;
  train_on(2, options);
  options.resume = true;
  options.steps = 12;
  CHECK(train_on(2, options).weights_sha256 == whole.weights_sha256);
  options.steps = 14;
  train_on(3, options);  // goes on on another number of ranks, too
}

TEST_CASE("a run goes on on another number of ranks") {
  const TemporaryFolder folder;
  ImageOptions options = small_run(30);
  options.dtype = "float64";
  const TrainResult whole = train_on(1, options);
  options.checkpoint = folder.path();
  options.metrics = folder.file("metrics.jsonl");
  options.steps = 10;
  train_on(4, options);
  options.resume = true;
  options.steps = 30;
  CHECK(difference(train_on(2, options), whole) < 1e-9);
}

TEST_CASE("a run that is resumed at its end evaluates again") {
  const TemporaryFolder folder;
  ImageOptions options = small_run(4);
  options.checkpoint = folder.path();
  const TrainResult first = train_on(2, options);
  options.resume = true;
  const TrainResult again = train_on(1, options);
  CHECK(again.weights_sha256 == first.weights_sha256);
  CHECK(again.test->correct == first.test->correct);
  CHECK(again.steps.empty());
}

TEST_CASE("a resumed run makes up for an evaluation that a kill left out") {
  const TemporaryFolder folder;
  ImageOptions options = small_run(36);  // two epochs of 17 steps, and two steps
  options.model = "mlp";
  options.checkpoint = folder.path();
  options.metrics = folder.file("metrics.jsonl");
  const auto evaluations = [&] {  // the lines of the file, and how many steps came before each
    std::vector<std::string> lines;
    std::ifstream file(options.metrics);
    int steps = 0;
    for (std::string line; std::getline(file, line);) {
      line.find("test_accuracy") == std::string::npos
          ? static_cast<void>(++steps)
          : lines.push_back(std::to_string(steps) + " " + line);
    }
    return lines;
  };
  train_on(2, options);
  const auto whole = evaluations();
  REQUIRE(whole.size() == 3);

  options.steps = 34;
  train_on(2, options);
  const std::string text = read_file(options.metrics);
  REQUIRE(evaluations().size() == 2);
  const std::string last = evaluations()[1].substr(3) + '\n';
  write_file(options.metrics, text.substr(0, text.size() - last.size()));
  REQUIRE(evaluations().size() == 1);
  options.resume = true;
  options.steps = 36;
  train_on(2, options);
  CHECK(evaluations() == whole);
  train_on(2, options);  // all is done, and nothing is written twice
  CHECK(evaluations() == whole);
}

TEST_CASE("a run shows how far it is") {
  ImageOptions options = small_run(20);
  options.progress = "bar";
  std::ostringstream out;
  train(options, *distributed::make_self(), training_set(), test_set(), out);
  CHECK(out.str().starts_with("\r\033[K1/2 [>         ] loss 2."));
  CHECK(out.str().find("epoch 1, step 17: test accuracy ") != std::string::npos);
  CHECK(out.str().find("epoch 2, step 20: test accuracy ") != std::string::npos);
  options.quiet = true;
  out.str("");
  train(options, *distributed::make_self(), training_set(), test_set(), out);
  CHECK(out.str() == "");
}

TEST_CASE("dropout, the seed and the scaling rule change the run") {
  ImageOptions options = small_run(3);
  const TrainResult plain = train_on(2, options);
  options.dropout = 0.5;
  CHECK(train_on(2, options).weights_sha256 != plain.weights_sha256);
  options = small_run(3);
  options.seed = 1;
  CHECK(train_on(2, options).weights_sha256 != plain.weights_sha256);
  options = small_run(3);
  options.scale_rate = true;
  CHECK(train_on(2, options).steps[2].rate == doctest::Approx(2 * plain.steps[2].rate));
}

TEST_CASE("what cannot be trained is refused on every rank") {
  const auto refuse = [](const ImageOptions& options, const std::string& text) {
    CAPTURE(text);
    std::string message;
    try {
      train_on(2, options);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  };
  ImageOptions options = small_run(20);
  options.rate = 1e6;
  options.warmup = 0;
  refuse(options, "try a lower --rate, or --clip");
  options = small_run(20);
  options.epochs = 1;
  options.warmup = 21;
  refuse(options, "--warmup 21 is longer than the schedule of 20 steps");
  options = small_run(20);
  options.batch = 0;
  refuse(options, "--batch must be in [1, 1000000], got 0");

  const auto alone = distributed::make_self();
  std::ostringstream out;
  CHECK_THROWS_WITH_AS(train(small_run(1), *alone, Head(images(), 0), test_set(), out),
                       "[train] the training set has no samples", ValueError);
  CHECK_THROWS_WITH_AS(train(small_run(1), *alone, training_set(), Head(images(), 0), out),
                       "[train] the test set has no samples", ValueError);
}
