// A Gpt whose ranks have parts of each sequence against the same Gpt on one.
#include "distributed/context_parallel/context_parallel.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/mesh/mesh.h"
#include "distributed/tensor_parallel/tensor_parallel.h"
#include "models/gpt.h"
#include "models/gpt_plan.h"
#include "optim/sgd.h"

namespace capstan::distributed {
namespace {

using doctest::Contains;
using models::Gpt;

constexpr int64_t kLength = 24;

models::GptShape shape(bool rotary) {
  return {.vocabulary = 11,
          .context = kLength,
          .layers = 2,
          .heads = 4,
          .width = 16,
          .rotary = rotary,
          .groups = 2};
}

const ContextOptions kGpt{.attention = "blocks.*.attention", .start = "drop"};

Gpt make(bool rotary, double dropout = 0) {
  manual_seed(3);
  Gpt gpt(shape(rotary), dropout);
  gpt.to(Dtype::float64);
  return gpt;
}

Tensor loss_of(const Tensor& logits, const Tensor& targets) {
  return cross_entropy(flatten(logits, 0, 1), flatten(targets));
}

double distance(nn::Module& a, nn::Module& b) {
  double most = 0;
  const NamedTensors x = a.parameters(), y = b.parameters();
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, max(absolute(detach(x[i].second) - detach(y[i].second))).item<double>());
  }
  return most;
}

TEST_CASE("training on parts of sequences is training on sequences") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      for (SequenceCut cut : {SequenceCut::zigzag, SequenceCut::blocks}) {
        for (bool rotary : {false, true}) {
          Gpt whole = make(rotary, 0.2), gpt = make(rotary, 0.2);
          const ContextParallel context(
              gpt, {.attention = "blocks.*.attention", .start = "drop", .cut = cut}, ranks);
          Ddp ddp(gpt, ranks);
          optim::Sgd alone(whole.parameters()), together(gpt.parameters());
          for (int64_t step = 0; step < 5; ++step) {
            Generator generator(step);
            const Tensor tokens = randint({2, kLength}, 0, 11, {Dtype::int64}, generator);
            const Tensor targets = randint({2, kLength}, 0, 11, {Dtype::int64}, generator);
            manual_seed(step);
            backward(loss_of(whole(tokens), targets));
            const Generator after = default_generator();
            manual_seed(step);
            const Tensor logits = gpt(tokens);
            CHECK(default_generator() == after);
            CHECK(logits.shape() == Shape{2, kLength / ranks.size(), 11});
            ddp.backward(loss_of(logits, context.part(targets)));
            for (optim::Sgd* sgd : {&alone, &together}) {
              sgd->step(0.5);
              sgd->zero_grad();
            }
          }
          CHECK(distance(gpt, whole) < 1e-12);
        }
      }
    });
  }
}

TEST_CASE("parts of sequences and parts of layers, on a mesh of both") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh({{"context", 2}, {"tensor", 2}});
    const auto context_ranks = mesh.split(world, {"context"});
    const auto tensor_ranks = mesh.split(world, {"tensor"});
    Gpt whole = make(true, 0.2), gpt = make(true, 0.2);
    const Tensor tokens = randint({2, kLength}, 0, 11), targets = randint({2, kLength}, 0, 11);
    manual_seed(6);
    backward(loss_of(whole(tokens), targets));

    const TensorParallel parallel(gpt, models::gpt_plan(), *tensor_ranks);
    const ContextParallel context(gpt, kGpt, *context_ranks);
    Ddp ddp(gpt, *context_ranks);
    manual_seed(6);
    ddp.backward(parallel.cross_entropy("head", gpt(tokens), context.part(targets)));
    for (const auto& [name, parameter] : whole.parameters()) {
      NamedTensors mine;
      for (const auto& [other, p] : gpt.parameters()) {
        if (other == name) mine.emplace_back(name, p.grad());
      }
      const Tensor together = parallel.whole(mine)[0].second;
      CHECK(max(absolute(together - parameter.grad())).item<double>() < 1e-12);
    }
  });
}

TEST_CASE("parts are joined in the order of the sequence") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      for (SequenceCut cut : {SequenceCut::zigzag, SequenceCut::blocks}) {
        Gpt gpt = make(false);
        const ContextParallel context(
            gpt, {.attention = "blocks.*.attention", .start = "drop", .cut = cut}, ranks);
        const Tensor x = randn({3, kLength, 2});
        CHECK(context.joined(context.part(x)).to_vector<float>() == x.to_vector<float>());
        CHECK_THROWS_AS(context.joined(zeros({4})), ShapeError);
      }
    });
  }
}

TEST_CASE("a model is as it was when the ContextParallel goes") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make(true);
    const Tensor tokens = randint({2, kLength}, 0, 11), before = gpt(tokens);
    {
      const ContextParallel context(gpt, {.attention = "blocks.*.attention", .start = "drop"},
                                    ranks);
      CHECK(gpt(tokens).size(1) == kLength / 2);
    }
    CHECK(gpt(tokens).to_vector<double>() == before.to_vector<double>());
    CHECK(gpt.blocks[1].drop.parts.empty());
  });
}

TEST_CASE("what does not fit is refused on every rank") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make(false);
    const auto refused = [&](Gpt& model, const ContextOptions& options, const char* text) {
      CHECK_THROWS_WITH_AS(ContextParallel(model, options, ranks), Contains(text), ValueError);
    };
    refused(gpt, {"blocks.*.attn", "drop"}, "no module fits 'blocks.*.attn'; there are tokens");
    refused(gpt, {"blocks.*.attention", "dropout"}, "no module fits 'dropout'");
    refused(gpt, {"blocks.*.attention", "blocks.*.drop"},
            "'blocks.0.drop' and 'blocks.1.drop' both fit");
    refused(gpt, {"head", "drop"}, "and 'head' is a Linear");
    CHECK_THROWS_AS(
        ContextParallel(gpt, {"blocks.*.attention", ranks.rank() == 0 ? "drop" : "head"}, ranks),
        SharedError);
    const ContextParallel context(gpt, {"blocks.*.attention", "drop"}, ranks);
    CHECK_THROWS_WITH_AS(gpt(zeros({1, 6}, {.dtype = Dtype::int64})),
                         Contains("cut a sequence into 4 blocks"), ShapeError);
    CHECK_THROWS_AS(context.part(zeros({4})), ShapeError);
    const Tensor x = zeros({1, 4, 16}, {.dtype = Dtype::float64});
    CHECK_THROWS_WITH_AS(gpt.blocks[0].attention(x, AttentionOptions{.mask = x}),
                         Contains("takes no mask"), ValueError);
  });
}

}  // namespace
}  // namespace capstan::distributed
