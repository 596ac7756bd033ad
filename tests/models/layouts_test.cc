// Tests that a run is the same however its ranks share the work: sharded, in stages, or both, to
// the last bit; layer by layer up to rounding. And that any layout goes on where another stopped.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "core/allocator.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "models/gpt.h"
#include "models/gpt_plan.h"
#include "models/gpt_task.h"
#include "models/image_task.h"
#include "models/strategy.h"
#include "tests/models/images.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::Head;
using capstan::testing::images;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

struct Row {
  int ranks;
  RankLayout layout;
};

std::string describe(const Row& row) {
  return fmt::format("{} ranks: {}", row.ranks, to_string(row.layout, row.ranks));
}

/// Trains on `ranks` threads and returns what all of them got.
template <class Train>
TrainResult train_on(int ranks, const Train& train) {
  std::vector<TrainResult> results(ranks);
  std::vector<std::ostringstream> out(ranks);
  distributed::run_ranks(ranks, [&](distributed::Communicator& communicator) {
    const int rank = communicator.rank();
    results[rank] = train(communicator, out[rank]);
  });
  for (const TrainResult& result : results) {
    CHECK(result.weights_sha256 == results[0].weights_sha256);
    CHECK(result.test->correct == results[0].test->correct);
    CHECK(result.test->samples == results[0].test->samples);
    CHECK(result.steps.back().loss == results[0].steps.back().loss);
    CHECK(result.steps.back().gradient_norm == results[0].steps.back().gradient_norm);
  }
  for (int rank = 1; rank < ranks; ++rank) CHECK(out[rank].str().empty());
  return results[0];
}

/// A small GPT on bytes.
struct GptRun {
  TemporaryFolder folder;
  GptOptions options;

  GptRun() {
    Generator generator(1);
    std::string text;
    while (text.size() < 6'000) text += static_cast<char>('a' + generator.below(7));
    options.text = folder.file("text");
    write_file(options.text, text);
    options.shape = {.context = 8, .layers = 3, .heads = 4, .width = 16};
    options.steps = 50;
    options.global_batch = 16;
    options.dropout = 0.1;
    options.rate = 0.01;
    options.warmup = 5;
    options.progress = "none";
  }

  TrainResult train_on(const Row& row, std::string* written = nullptr) {
    options.layout = row.layout;
    const TextSet text(options);
    std::ostringstream kept;
    const TrainResult result =
        ::train_on(row.ranks, [&](distributed::Communicator& communicator, std::ostream& out) {
          return train(options, text, communicator, communicator.rank() == 0 ? kept : out);
        });
    if (written) *written = kept.str();
    return result;
  }
};

/// The same steps, test result and weights, to the last bit.
void check_equal(const TrainResult& a, const TrainResult& b) {
  CHECK(a.weights_sha256 == b.weights_sha256);
  REQUIRE(a.steps.size() == b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    CHECK(a.steps[i].loss == b.steps[i].loss);
    CHECK(a.steps[i].gradient_norm == b.steps[i].gradient_norm);
  }
  CHECK(a.test->correct == b.test->correct);
  CHECK(a.test->loss == doctest::Approx(b.test->loss).epsilon(1e-6));
}

}  // namespace

TEST_CASE("a GPT has one curve, to the last bit, under every layout of 1, 2, 4 and 8 ranks") {
  GptRun run;
  run.options.sample = 9;
  std::string alone_wrote;
  const TrainResult alone = run.train_on({1, {}}, &alone_wrote);
  CHECK(alone.steps.back().loss < alone.steps.front().loss);
  for (const Row& row : std::vector<Row>{
           {2, {.zero = 1}},
           {4, {.zero = 2}},
           {8, {.zero = 3}},
           {2, {.pipeline = 2, .schedule = "gpipe"}},
           {4, {.pipeline = 4, .schedule = "1f1b"}},
           {2, {.pipeline = 2, .schedule = "interleaved", .chunks = 2}},
           {2, {.pipeline = 2, .schedule = "zb-h1"}},
           {8, {.pipeline = 4}},
           {4, {.zero = 1, .pipeline = 2}},
           {4, {.zero = 2, .pipeline = 2}},
           {4, {.zero = 2, .pipeline = 2, .schedule = "interleaved"}},
           {4, {.zero = 3, .pipeline = 2, .schedule = "gpipe"}},
           {8, {.zero = 3, .pipeline = 4}},
           {4, {.zero = 3, .pipeline = 2, .schedule = "interleaved"}},
           {8, {.zero = 3, .pipeline = 2, .schedule = "zb-h1"}},
       }) {
    CAPTURE(describe(row));
    std::string wrote;
    check_equal(run.train_on(row, &wrote), alone);
    CHECK(wrote == alone_wrote);
  }
}

TEST_CASE("LeNet has one curve under shards and stages") {
  static const Head training(images(), 520), test(images(), 3);  // fewer than ranks
  const auto train_with = [&](const Row& row) {
    ImageOptions options;
    options.model = "lenet";
    options.global_batch = 32;
    options.epochs = 8;
    options.steps = 20;  // beyond the end of an epoch, where a step has 8 samples for 16 shards
    options.dropout = 0.2;
    options.clip = 1;
    options.progress = "none";
    options.layout = row.layout;
    return train_on(row.ranks, [&](distributed::Communicator& communicator, std::ostream& out) {
      return train(options, communicator, training, test, out);
    });
  };
  const TrainResult alone = train_with({1, {}});
  for (const Row& row : std::vector<Row>{{2, {.zero = 1}},
                                         {2, {.zero = 2}},
                                         {4, {.zero = 3}},
                                         {2, {.pipeline = 2}},
                                         {4, {.pipeline = 4, .schedule = "zb-h1"}},
                                         {4, {.zero = 3, .pipeline = 2, .schedule = "1f1b"}}}) {
    CAPTURE(describe(row));
    check_equal(train_with(row), alone);
  }
}

TEST_CASE("a run that is stopped goes on under any other layout") {
  GptRun run;
  run.options.steps = 12;
  const TrainResult whole = run.train_on({1, {}});
  run.options.checkpoint = run.folder.file("checkpoint");
  TrainResult last;
  int64_t steps = 0;
  for (const Row& row : std::vector<Row>{{4, {.zero = 3}},
                                         {2, {.pipeline = 2}},
                                         {2, {.zero = 1}},
                                         {4, {.zero = 3, .pipeline = 2}},
                                         {1, {}},
                                         {2, {.zero = 2}}}) {
    CAPTURE(describe(row));
    run.options.steps = steps += 2;
    last = run.train_on(row);
    run.options.resume = true;
  }
  CHECK(last.weights_sha256 == whole.weights_sha256);
}

TEST_CASE("layers that several ranks compute give the same numbers up to rounding") {
  GptRun run;
  run.options.steps = 20;
  run.options.dtype = "float64";
  run.options.sample = 9;  // and of lengths that the ranks do not divide
  std::string alone_wrote, wrote;
  const TrainResult alone = run.train_on({1, {}}, &alone_wrote);
  for (const Row& row :
       std::vector<Row>{{2, {.tensor = 2}},
                        {4, {.tensor = 4}},
                        {4, {.tensor = 2}},
                        {4, {.zero = 3, .tensor = 2}},
                        {4, {.pipeline = 2, .tensor = 2}},
                        {8, {.zero = 1, .pipeline = 2, .tensor = 2}},
                        {2, {.tensor = 2, .sequence_parallel = true}},
                        {4, {.tensor = 4, .sequence_parallel = true}},
                        {8, {.pipeline = 2, .tensor = 2, .sequence_parallel = true}},
                        {2, {.context = 2}},
                        {4, {.context = 4}},
                        {4, {.context = 2}},
                        {4, {.zero = 2, .context = 2}},
                        {4, {.zero = 3, .context = 2}},
                        {4, {.context = 2, .tensor = 2}},
                        {4, {.pipeline = 2, .context = 2}},
                        {8, {.zero = 1, .pipeline = 2, .context = 2, .tensor = 2}}}) {
    CAPTURE(describe(row));
    const TrainResult shared = run.train_on(row, &wrote);
    CHECK(wrote == alone_wrote);
    for (size_t i = 0; i < alone.steps.size(); ++i) {
      CHECK(shared.steps[i].loss == doctest::Approx(alone.steps[i].loss).epsilon(1e-11));
      CHECK(*shared.steps[i].gradient_norm ==
            doctest::Approx(*alone.steps[i].gradient_norm).epsilon(1e-9));
    }
    CHECK(shared.test->loss == doctest::Approx(alone.test->loss).epsilon(1e-11));
  }
  // Stopped in slices or parts of sequences, continued whole.
  for (const Row& row :
       std::vector<Row>{{4, {.zero = 3, .tensor = 2}}, {4, {.zero = 1, .context = 2}}}) {
    CAPTURE(describe(row));
    run.options.checkpoint = run.folder.file(fmt::format("checkpoint{}", row.layout.context));
    run.options.steps = 10;
    run.options.resume = false;
    run.train_on(row);
    run.options.steps = 20;
    run.options.resume = true;
    CHECK(run.train_on({1, {}}).test->loss == doctest::Approx(alone.test->loss).epsilon(1e-11));
  }
}

TEST_CASE("in float32 the losses of such layouts agree to 1e-5") {
  GptRun run;
  run.options.steps = 20;
  const TrainResult alone = run.train_on({1, {}});
  for (const Row& row : std::vector<Row>{{2, {.tensor = 2, .sequence_parallel = true}},
                                         {4, {.context = 2, .tensor = 2}}}) {
    CAPTURE(describe(row));
    const TrainResult shared = run.train_on(row);
    for (size_t i = 0; i < alone.steps.size(); ++i) {
      CHECK(std::abs(shared.steps[i].loss - alone.steps[i].loss) < 1e-5);
    }
  }
}

TEST_CASE("however ranks share a model, none of them makes all of it") {
  GptRun run;
  GptOptions& options = run.options;
  options.reproducible = 0;  // whose sums would take memory
  const TextSet text(options);
  for (const RankLayout& layout : std::vector<RankLayout>{
           {.pipeline = 4}, {.tensor = 4}, {.zero = 3}, {.pipeline = 2, .tensor = 2}}) {
    CAPTURE(to_string(layout, 4));
    options.layout = layout;
    Allocator& cpu = allocator(Device());
    const int64_t before = cpu.stats().current;
    cpu.reset_peak();
    int64_t whole = 0;
    distributed::run_ranks(4, [&](distributed::Communicator& ranks) {
      manual_seed(0);
      Task task{.name = "gpt",
                .model = Classifier::recorded([] {
                  return Classifier(std::make_unique<Gpt>(GptShape{
                      .vocabulary = 256, .context = 8, .layers = 12, .heads = 4, .width = 64}));
                }),
                .training_set = text.training,
                .test_set = text.validation,
                .tensor_plan = gpt_plan()};
      if (ranks.rank() == 0) whole = 4 * task.model.module().parameter_count();
      const Axes axes(layout.mesh(4), ranks);
      const auto strategy = make_strategy(options, task, axes, {});
      ranks.barrier().wait();  // so that all have theirs at one time
    });
    const int64_t peak = cpu.stats().peak - before;  // of all ranks
    CAPTURE(whole);
    CAPTURE(peak);
    CHECK(peak >= whole);
    CHECK(peak < 3 * whole);  // weights, places for gradients, what is in hand on each rank
  }
}

TEST_CASE("experts, on every rank or spread over them, give one curve up to rounding") {
  GptRun run;
  run.options.shape.experts = 4;
  run.options.epochs = 2;
  run.options.steps = 44;  // beyond the end of an epoch, where a step has 3 samples for 16 shards
  run.options.dtype = "float64";
  run.options.sample = 9;
  std::string alone_wrote, wrote;
  const TrainResult alone = run.train_on({1, {}}, &alone_wrote);
  CHECK(alone.steps.back().loss < alone.steps.front().loss);
  for (const Row& row : std::vector<Row>{{2, {}},
                                         {2, {.zero = 3}},
                                         {2, {.spread_experts = true}},
                                         {4, {.spread_experts = true}}}) {
    CAPTURE(describe(row));
    const TrainResult shared = run.train_on(row, &wrote);
    CHECK(wrote == alone_wrote);
    for (size_t i = 0; i < alone.steps.size(); ++i) {
      CHECK(shared.steps[i].loss == doctest::Approx(alone.steps[i].loss).epsilon(1e-10));
      CHECK(*shared.steps[i].gradient_norm ==
            doctest::Approx(*alone.steps[i].gradient_norm).epsilon(1e-8));
    }
    CHECK(shared.test->loss == doctest::Approx(alone.test->loss).epsilon(1e-10));
  }
  // Experts of four ranks go on together, and the other way round.
  run.options.checkpoint = run.folder.file("checkpoint");
  run.options.steps = 10;
  run.train_on({4, {.spread_experts = true}});
  run.options.resume = true;
  run.options.steps = 30;
  run.train_on({1, {}});
  run.options.steps = 44;
  CHECK(run.train_on({2, {.spread_experts = true}}).test->loss ==
        doctest::Approx(alone.test->loss).epsilon(1e-10));
}

TEST_CASE("layouts that there cannot be are refused on every rank") {
  GptRun run;
  run.options.steps = 1;
  const auto refuse = [&](const Row& row, const char* text) {
    CAPTURE(describe(row));
    CHECK_THROWS_WITH_AS(run.train_on(row), doctest::Contains(text), Error);
  };
  CHECK_THROWS_WITH_AS(run.train_on({3, {.pipeline = 2}}),
                       doctest::Contains("--pipeline 2 x --context-parallel 1 x --tensor 1 are 2 "
                                         "ranks for a sample, which must divide the ranks; there "
                                         "are 3"),
                       ValueError);
  refuse({3, {.tensor = 3}}, "heads");
  refuse({3, {.context = 3}}, "the parts of a sequence must divide --context, got 6 and 8");
  refuse({2, {.spread_experts = true}}, "--expert-parallel needs --experts");
  run.options.shape.experts = 3;
  refuse({2, {.spread_experts = true}}, "2 ranks cannot share 3 experts evenly");
  refuse({2, {.tensor = 2}}, "--experts does not go with --swiglu, --tensor, --pipeline and");
  run.options.shape.experts = 0;
  refuse({6, {.pipeline = 6}}, "need a layer each, the model has 5");
  run.options.global_batch = 3;
  run.options.reproducible = 0;
  refuse({2, {.pipeline = 2, .schedule = "interleaved"}}, "multiple");
}
