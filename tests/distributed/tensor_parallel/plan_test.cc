// Plans that do not fit a model: refused on every rank, with names and numbers, before anything is
// changed.
#include "distributed/tensor_parallel/plan.h"

#include "core/error.h"
#include "distributed/comm/thread.h"
#include "nn/sequential.h"
#include "nn/weight_norm.h"
#include "tests/distributed/tensor_parallel/gpts.h"

namespace capstan::distributed {
namespace {

using doctest::Contains;
using models::Gpt;

/// What every rank throws where `plan` is applied to a Gpt, which it leaves alone.
void refused(int n, const TensorPlan& plan, const char* text,
             const models::GptShape& shape = gpt2()) {
  CAPTURE(text);
  run_ranks(n, [&](Communicator& ranks) {
    Gpt gpt = make_gpt(shape, Dtype::float32);
    CHECK_THROWS_WITH_AS(TensorParallel(gpt, plan, ranks), Contains(text), ValueError);
    CHECK(gpt.tokens.weight.size(0) == shape.vocabulary);
    CHECK(gpt.blocks[0].attention.query.on_input.empty());
  });
}

TEST_CASE("a rule for what does not exist") {
  refused(
      2, {{{"blocks.*.attn", Cut::heads}}},
      "[tensor_parallel] no module fits 'blocks.*.attn' (heads); there are tokens positions drop "
      "blocks.0");
  refused(1, {{{"blocks.7.attention", Cut::heads}}}, "no module fits 'blocks.7.attention'");
}

TEST_CASE("a rule for a module of another type") {
  refused(2, {{{"norm", Cut::column}}}, "column cannot cut 'norm', a GptNorm");
  refused(2, {{{"blocks.0.attention", Cut::row}}},
          "row cannot cut 'blocks.0.attention', a MultiheadAttention");
  refused(2, {{{"head", Cut::heads}}}, "heads cannot cut 'head', a Linear");
  refused(2, {{{"drop", Cut::vocabulary}}}, "vocabulary cannot cut 'drop', a Dropout");
  refused(2, {{{"norm", Cut::feed_forward}}},
          "takes a module with two Linear layers or more, and 'norm', a GptNorm, has 0");
  refused(
      2, {{{"blocks.0.attention", Cut::feed_forward}}},  // groups make it narrower
      "got 'blocks.0.attention.key' [6, 24] and 'blocks.0.attention.out' [24, 24]",
      {.vocabulary = 23, .context = kTokens, .layers = 1, .heads = 4, .width = 24, .groups = 1});
}

TEST_CASE("a layer that is a Linear and more") {
  run_ranks(2, [](Communicator& ranks) {
    nn::Sequential model{nn::WeightNorm<nn::Linear>(nn::Linear(4, 4))};
    CHECK_THROWS_WITH_AS(TensorParallel(model, {{{"0", Cut::column}}}, ranks),
                         Contains("column cannot cut '0', a WeightNorm"), ValueError);
  });
}

TEST_CASE("sizes that ranks cannot share") {
  refused(5, {{{"blocks.*.attention", Cut::heads}}},
          "5 ranks cannot share the 24 heads and 24 groups of 'blocks.0.attention' evenly");
  models::GptShape grouped = gpt2();
  grouped.groups = 2;
  refused(3, {{{"blocks.*.attention", Cut::heads}}},
          "3 ranks cannot share the 24 heads and 2 groups of 'blocks.0.attention' evenly", grouped);
  refused(5, {{{"*.feed_forward", Cut::feed_forward}}},
          "axis 0 of 'blocks.0.feed_forward.up.weight' [96, 24] cannot be cut into 5 equal parts");
  refused(
      5, {{{"*.down", Cut::row}}},
      "axis 1 of 'blocks.0.feed_forward.down.weight' [24, 96] cannot be cut into 5 equal parts");
  models::GptShape two = gpt2();
  two.vocabulary = 2;
  refused(3, {{{"tokens", Cut::vocabulary}, {"head", Cut::vocabulary}}},
          "axis 0 of 'tokens.weight' [2, 24] cannot be cut into 3 non-empty parts", two);
}

TEST_CASE("rules that exclude each other") {
  refused(2, {{{"blocks.*.attention", Cut::heads}, {"blocks.0.*", Cut::sequence}}, true},
          "module 'blocks.0.attention' fits two rules, 'blocks.*.attention' and 'blocks.0.*'");
  refused(2, {{{"blocks.*.attention", Cut::heads}, {"*.attention.key", Cut::column}}},
          "two rules cut 'blocks.0.attention.key.weight'");
  refused(2, {{{"*.up", Cut::row, true}}},
          "only results of column and vocabulary can be joined, got row for '*.up'");
  refused(2, {{{"norm", Cut::sequence}}}, "sequence ('norm') is for plans with sequence = true");
  refused(2, {{{"drop", Cut::sequence_start}}}, "sequence_start ('drop') is for plans");
}

TEST_CASE("a tied parameter that would not be cut alike under both names") {
  refused(2, {{{"tokens", Cut::vocabulary}}},
          "'tokens.weight' and 'head.weight' are one parameter, and need rules that cut it alike");
  refused(2, {{{"tokens", Cut::vocabulary}, {"head", Cut::row}}},
          "'tokens.weight' and 'head.weight' are one parameter");
  refused(2, {{{"tokens", Cut::sequence}}, true}, "'tokens.weight' and 'head.weight' are one");
}

TEST_CASE("plans or models that differ between ranks") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make_gpt(gpt2(), Dtype::float32);
    const TensorPlan plan = models::gpt_plan({.sequence = ranks.rank() == 0});
    CHECK_THROWS_WITH_AS(TensorParallel(gpt, plan, ranks),
                         Contains("plan of tensor parallelism and model"), SharedError);
  });
  run_ranks(2, [](Communicator& ranks) {
    models::GptShape shape = gpt2();
    shape.groups = 2 + 2 * ranks.rank();
    Gpt gpt = make_gpt(shape, Dtype::float32);
    CHECK_THROWS_AS(TensorParallel(gpt, models::gpt_plan(), ranks), SharedError);
  });
}

TEST_CASE("a sequence that ranks cannot share, and a token that is none") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make_gpt(gpt2(), Dtype::float32);
    const TensorParallel parallel(gpt, models::gpt_plan({.sequence = true}), ranks);
    CHECK_THROWS_WITH_AS(
        gpt(zeros({2, 7}, {.dtype = Dtype::int64})),
        Contains("2 ranks cannot share axis 1, the sequence, of [2, 7, 24] evenly"), ShapeError);
    CHECK_THROWS_WITH_AS(gpt(full({2, 8}, 23, {.dtype = Dtype::int64})),
                         Contains("indices must be in [0, 23), got 23"), ValueError);
  });
}

}  // namespace
}  // namespace capstan::distributed
