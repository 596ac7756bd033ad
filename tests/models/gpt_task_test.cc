// Tests what training a GPT promises: it learns, the same on any number of ranks, and goes on where
// it was. (How a run writes, stops and resumes is the same for all tasks: train_test.cc.)
#include "models/gpt_task.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "core/random.h"
#include "distributed/comm/thread.h"
#include "models/train_state.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

/// Words of a small language, drawn at random.
std::string some_text(size_t size) {
  Generator generator(1);
  const std::vector<std::string> words = {"capstan ", "rope ", "anchor ", "sail ",  "and ",
                                          "the ",     "turn ", "haul ",   "wind.\n"};
  std::string text;
  while (text.size() < size) text += words[generator.below(words.size())];
  return text;
}

/// Nats of a byte that is guessed from the frequencies alone.
double unigram_entropy(const std::string& text) {
  std::map<char, double> counts;
  for (char c : text) counts[c] += 1;
  double entropy = 0;
  const auto all = static_cast<double>(text.size());
  for (const auto& [_, count] : counts) entropy -= count / all * std::log(count / all);
  return entropy;
}

/// A folder with a text, and options for a small run on it.
struct Run {
  TemporaryFolder folder;
  GptOptions options;

  explicit Run(int64_t steps) {
    options.text = folder.file("text");
    write_file(options.text, some_text(20'000));
    options.shape = {.context = 16, .layers = 2, .heads = 4, .width = 32};
    options.steps = steps;
    options.global_batch = 32;
    options.rate = 0.01;
    options.warmup = 5;
    options.progress = "none";
  }

  /// Trains on `ranks` threads and returns what rank 0 got, after a look at the others.
  TrainResult train_on(int ranks, std::string* written = nullptr) const {
    const TextSet text(options);
    std::vector<TrainResult> results(ranks);
    std::vector<std::ostringstream> out(ranks);
    distributed::run_ranks(ranks, [&](distributed::Communicator& communicator) {
      const int rank = communicator.rank();
      results[rank] = train(options, text, communicator, out[rank]);
    });
    for (const TrainResult& result : results) {
      CHECK(result.weights_sha256 == results[0].weights_sha256);
      CHECK(result.test->correct == results[0].test->correct);
    }
    for (int rank = 1; rank < ranks; ++rank) CHECK(out[rank].str().empty());
    if (written) *written = out[0].str();
    return results[0];
  }
};

}  // namespace

TEST_CASE("a GPT learns more than the frequencies of bytes") {
  Run run(100);
  const TextSet text(run.options);
  const TrainResult result = run.train_on(2);
  CHECK(result.steps.front().loss == doctest::Approx(std::log(256)).epsilon(0.01));
  const double entropy = unigram_entropy(some_text(20'000));
  MESSAGE("unigram entropy ", entropy, ", training loss ", result.steps.back().loss,
          ", validation loss ", result.test->loss);
  CHECK(result.steps.back().loss < 0.6 * entropy);
  CHECK(result.test->loss < 0.6 * entropy);
  CHECK(result.test->samples == text.validation.size() * 16);
  CHECK(bits_per_byte(*result.test, text.bytes_per_token()) ==
        doctest::Approx(result.test->loss / std::log(2)));
  CHECK(bits_per_byte(*result.test, 2) == doctest::Approx(result.test->loss / std::log(2) / 2));
  CHECK(result.test_text.starts_with("validation loss "));
  CHECK(result.test_text.ends_with(" bits per byte"));
  CHECK(result.speed_text.ends_with(" tokens/s"));
}

TEST_CASE("every variant learns, with the same weights to the bit on 1, 2 and 4 ranks") {
  const auto compare = [](auto change) {
    Run run(30);
    run.options.dropout = 0.1;
    change(run.options);
    const TrainResult alone = run.train_on(1);
    CHECK(alone.steps.back().loss < 0.6 * alone.steps.front().loss);
    for (const auto& [ranks, accumulate] : {std::pair(2, 1), {4, 1}, {2, 4}}) {
      CAPTURE(ranks);
      run.options.accumulate = accumulate;
      const TrainResult other = run.train_on(ranks);
      CHECK(other.weights_sha256 == alone.weights_sha256);
      CHECK(other.steps.back().loss == alone.steps.back().loss);
      CHECK(other.test->loss == doctest::Approx(alone.test->loss));
    }
    return alone.weights_sha256;
  };
  const std::string plain = compare([](GptOptions&) {});
  CHECK(compare([](GptOptions& o) {
          o.shape.rotary = o.shape.rms_norm = o.shape.swiglu = true;
          o.shape.groups = 2;
        }) != plain);
  CHECK(compare([](GptOptions& o) { o.autocast = true; }) != plain);
}

TEST_CASE("a run that is stopped goes on, to the bit, on another number of ranks") {
  Run run(20);
  run.options.dropout = 0.2;
  const TrainResult whole = run.train_on(1);
  run.options.checkpoint = run.folder.file("checkpoint");
  run.options.steps = 7;
  run.train_on(4);
  run.options.resume = true;
  run.options.steps = 20;
  CHECK(run.train_on(2).weights_sha256 == whole.weights_sha256);

  const auto refuse = [&](auto change, const char* text) {
    const GptOptions before = run.options;
    change(run.options);
    CHECK_THROWS_WITH_AS(run.train_on(1), doctest::Contains(text), Error);
    run.options = before;
  };
  refuse([](GptOptions& o) { o.shape.layers = 3; },
         "its model is gpt of 2 layers, 4 heads, width 32, context 16, vocabulary 256, this run's "
         "is gpt of 3 layers");
  refuse([](GptOptions& o) { o.shape.rotary = true; }, "vocabulary 256, rotary");
  refuse([](GptOptions& o) { o.tokenizer = "tests/data/testdata/tokenizer_gpt2.json"; },
         "vocabulary 256, this run's is gpt");
}

TEST_CASE("what a model writes depends on its weights and the options, not on ranks or resumes") {
  Run run(60);
  run.options.sample = 50;
  run.options.prompt = "the ";
  run.options.checkpoint = run.folder.file("checkpoint");
  std::string first, second;
  run.train_on(1, &first);
  CHECK(first.starts_with("the "));
  CHECK(first.size() == 4 + 50 + 1);
  run.train_on(2, &second);
  CHECK(second == first);
  run.options.resume = true;
  run.train_on(1, &second);
  CHECK(second == first);
  run.options.sample_seed = 1;
  run.train_on(1, &second);
  CHECK(second != first);
  run.options.temperature = 0;
  run.train_on(1, &first);
  run.options.sample_seed = 2;
  run.train_on(1, &second);
  CHECK(second == first);
}

TEST_CASE("options that are impossible are refused") {
  Run run(1);
  const TextSet text(run.options);
  run.options.shape.heads = 5;
  distributed::run_ranks(1, [&](distributed::Communicator& communicator) {
    std::ostringstream out;
    CHECK_THROWS_AS(train(run.options, text, communicator, out), ValueError);
  });
}
