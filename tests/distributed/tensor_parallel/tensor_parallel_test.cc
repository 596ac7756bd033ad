// Models that are cut by a plan, on 1 to 4 ranks, against the same model on one.
#include "distributed/tensor_parallel/tensor_parallel.h"

#include "autograd/autocast.h"
#include "autograd/reduce.h"
#include "core/allocator.h"
#include "core/error.h"
#include "distributed/clip.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/mesh/mesh.h"
#include "distributed/replica_check.h"
#include "distributed/tensor_parallel/door.h"
#include "nn/materialize.h"
#include "nn/state.h"
#include "nn/summary.h"
#include "nn/transformer.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/distributed/tensor_parallel/gpts.h"

namespace capstan::distributed {
namespace {

using models::Gpt;
using models::gpt_plan;
using models::GptShape;

constexpr double kExact = 1e-12;  // in float64

Tensor cut_loss(const TensorParallel& parallel, Gpt& gpt, const Text& text) {
  return parallel.cross_entropy("head", gpt(text.inputs), text.targets);
}

/// Loss and gradients of a cut model against those of the whole one.
void compare(const GptShape& shape, bool sequence, Communicator& ranks) {
  Gpt whole = make_gpt(shape, Dtype::float64, 0.2), gpt = make_gpt(shape, Dtype::float64, 0.2);
  manual_seed(4);
  const Tensor expected = whole_loss(whole, text(0));
  backward(expected);

  const TensorParallel parallel(gpt, gpt_plan({.sequence = sequence}), ranks);
  manual_seed(4);
  const Tensor loss = cut_loss(parallel, gpt, text(0));
  backward(loss);
  CHECK(std::abs(loss.item<double>() - expected.item<double>()) < kExact);
  CHECK(difference(parallel.whole(gpt.parameters()), whole.parameters()) == 0);
  CHECK(difference(parallel.whole(gradients_of(gpt)), gradients_of(whole)) < kExact);

  // What is not cut has the same gradient on all ranks, to the bit.
  NamedTensors replicated;
  for (const auto& [name, grad] : gradients_of(gpt)) {
    if (!parallel.slice(name).axis) replicated.emplace_back(name, grad);
  }
  CHECK_FALSE(replicated.empty());
  CHECK_NOTHROW(check_replicas(replicated, ranks));
}

TEST_CASE("a cut Gpt has the loss and the gradients of the whole one") {
  for (int n : {1, 2, 3, 4, 6, 8}) {
    run_ranks(n, [n](Communicator& ranks) {
      GptShape grouped = gpt2();
      grouped.groups = n % 3 == 0 ? 6 : 8;  // not as many as heads
      for (bool sequence : {false, true}) {
        compare(gpt2(), sequence, ranks);
        compare(grouped, sequence, ranks);
        if (llama().heads % n == 0) compare(llama(), sequence, ranks);
      }
    });
  }
}

TEST_CASE("slices are smaller, under the same names, and tied where they were") {
  run_ranks(4, [](Communicator& ranks) {
    Gpt whole = make_gpt(gpt2(), Dtype::float32), gpt = make_gpt(gpt2(), Dtype::float32);
    const TensorParallel parallel(gpt, gpt_plan(), ranks);
    CHECK(gpt.tokens.weight.same(gpt.head.weight));
    CHECK(gpt.blocks[1].attention.heads == 6);
    const NamedTensors mine = gpt.parameters(), all = whole.parameters();
    REQUIRE(mine.size() == all.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto& [name, tensor] = mine[i];
      CHECK(name == all[i].first);
      CHECK(tensor.requires_grad());
      CHECK(parallel.slice(name).whole == all[i].second.shape());
    }
    CHECK(parallel.slice("blocks.0.attention.query.weight") ==
          ParameterSlice{{24, 24}, 0, 6 * ranks.rank(), 6});
    CHECK(parallel.slice("blocks.0.attention.out.weight").axis == 1);
    CHECK_FALSE(parallel.slice("blocks.0.attention.out.bias").axis);
    CHECK(gpt.blocks[0].feed_forward->up.bias->shape() == Shape{24});
    CHECK(gpt.blocks[0].feed_forward->down.weight.shape() == Shape{24, 24});
    CHECK(gpt.tokens.weight.size(0) == (ranks.rank() == 0 ? 5 : 6));  // 23 = 5 + 6 + 6 + 6
    int64_t sum = 0;
    for (const auto& [_, tensor] : parallel.counted(mine)) sum += tensor.numel();
    const Tensor total = full({}, static_cast<double>(sum), {.dtype = Dtype::int64});
    ranks.all_reduce(total).wait();
    CHECK(total.item<int64_t>() == whole.parameter_count());
  });
}

struct Columns : nn::Module {
  nn::Linear only{6, 12};
  CAPSTAN_MODULE(Columns, only)
  Tensor forward(const Tensor& x) { return only(x); }
};

TEST_CASE("any transformer will do, in halves and in whole") {
  const nn::TransformerOptions options{.hidden = 12, .dropout = 0, .gelu = true};
  for (int n = 1; n <= 3; ++n) {
    run_ranks(n, [&](Communicator& ranks) {
      const Tensor x = randn({2, 5, 12}), memory = randn({2, 7, 12});
      manual_seed(1);
      nn::TransformerDecoderLayer whole(12, 6, options), layer = whole.clone();
      const TensorParallel parallel(layer,
                                    {{{"*attention", Cut::heads},
                                      {"feed_forward.up", Cut::column},
                                      {"feed_forward.down", Cut::row}}},
                                    ranks);
      const Tensor weights = randn({2, 5, 12});
      for (auto* model : {&whole, &layer}) {
        require_grad(x);
        require_grad(memory);
        backward(sum((*model)(x, memory) * weights));
      }
      CHECK(difference(parallel.whole(gradients_of(layer)), gradients_of(whole)) < 2e-5);

      Columns columns, joined = columns.clone();
      const TensorParallel other(joined, {{{"only", Cut::column, true}}}, ranks);
      const Tensor y = randn({4, 6});
      CHECK(difference({{"y", joined(y)}}, {{"y", columns(y)}}) < 1e-6);
    });
  }
}

TEST_CASE("joined logits are the whole model's, in copies of the model too") {
  run_ranks(3, [](Communicator& ranks) {
    Gpt whole = make_gpt(gpt2(), Dtype::float64), gpt = make_gpt(gpt2(), Dtype::float64);
    const TensorParallel parallel(gpt, gpt_plan({.joined_logits = true}), ranks);
    Gpt copy = gpt, clone = gpt.clone();
    const Tensor expected = whole(text(0).inputs);
    for (Gpt* model : {&gpt, &copy, &clone}) {
      CHECK(difference({{"y", (*model)(text(0).inputs)}}, {{"y", expected}}) < kExact);
    }
    CHECK_NOTHROW(nn::summary(gpt, {3, kTokens}, Dtype::int64));
    CHECK_THROWS_AS(cut_loss(parallel, gpt, text(0)), ValueError);  // that one is for cut logits

    Gpt other = make_gpt(gpt2(), Dtype::float64);
    const TensorParallel cut(other, gpt_plan(), ranks);
    const Tensor logits = other(text(0).inputs);
    CHECK(difference({{"y", cut.joined("head", logits)}}, {{"y", expected}}) < kExact);
    CHECK_THROWS_AS(cut.joined("norm", logits), ValueError);
    CHECK_THROWS_AS(cut.joined("head", expected), ShapeError);
  });
}

/// The whole weights after 20 steps.
template <class Step>
NamedTensors train(Gpt& gpt, optim::Optimizer& optimizer, const Step& backward_of, double rate) {
  for (int64_t step = 0; step < 20; ++step) {
    backward_of(step);
    optimizer.step(rate);
    optimizer.zero_grad();
  }
  return gpt.parameters();
}

TEST_CASE("20 steps on 1, 2 and 4 ranks end where those of one rank do") {
  for (int n : {1, 2, 4}) {
    run_ranks(n, [](Communicator& ranks) {
      for (bool sequence : {false, true}) {
        for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
          Gpt whole = make_gpt(gpt2(), dtype), gpt = make_gpt(gpt2(), dtype);
          optim::Sgd alone(whole.parameters(), {.momentum = 0.9});
          const auto expected = train(
              whole, alone, [&](int64_t step) { backward(whole_loss(whole, text(step))); }, 0.05);
          const TensorParallel parallel(gpt, gpt_plan({.sequence = sequence}), ranks);
          optim::Sgd together(gpt.parameters(), {.momentum = 0.9});
          const auto got = parallel.whole(train(
              gpt, together, [&](int64_t step) { backward(cut_loss(parallel, gpt, text(step))); },
              0.05));
          CHECK(difference(got, expected) < (dtype == Dtype::float32 ? 1e-5 : kExact));
          CHECK(difference(got, make_gpt(gpt2(), dtype).parameters()) > 0.01);  // they moved
        }
      }
    });
  }
}

TEST_CASE("20 steps of AdamW, clipped, on data x tensor ranks end where those of one rank do") {
  for (int data : {1, 2}) {
    const int tensor = 2;
    run_ranks(data * tensor, [&](Communicator& world) {
      const Mesh mesh({{"data", data}, {"tensor", tensor}});
      const auto data_ranks = mesh.split(world, {"data"}),
                 tensor_ranks = mesh.split(world, {"tensor"});
      Gpt whole = make_gpt(gpt2(), Dtype::float64), gpt = make_gpt(gpt2(), Dtype::float64);
      constexpr double kLimit = 0.5;
      optim::AdamW alone(whole.parameters());
      std::vector<double> norms;
      const auto expected = train(
          whole, alone,
          [&](int64_t step) {
            backward(whole_loss(whole, text(step, 4)));
            norms.push_back(optim::clip_grad_norm(whole.parameters(), kLimit));
          },
          1e-3);
      CHECK(norms[0] > kLimit);

      const TensorParallel parallel(gpt, gpt_plan({.sequence = true}), *tensor_ranks);
      Ddp ddp(gpt, *data_ranks);
      optim::AdamW together(gpt.parameters());
      const NamedTensors counted = parallel.counted(gpt.parameters());
      const auto got = parallel.whole(train(
          gpt, together,
          [&](int64_t step) {
            const Text all = text(step, 4);
            const int64_t samples = 4 / data, first = data_ranks->rank() * samples;
            const Text mine{slice(all.inputs, 0, first, first + samples),
                            slice(all.targets, 0, first, first + samples)};
            ddp.backward(cut_loss(parallel, gpt, mine), static_cast<double>(samples));
            const double norm = clip_grad_norm(gpt.parameters(), counted, kLimit, *tensor_ranks);
            CHECK(norm == doctest::Approx(norms[step]).epsilon(1e-12));
          },
          1e-3));
      CHECK(difference(got, expected) < 1e-10);  // AdamW divides by small gradients
    });
  }
}

TEST_CASE("an optimizer's state is cut and made whole as its parameters are") {
  run_ranks(3, [](Communicator& ranks) {
    Gpt whole = make_gpt(gpt2(), Dtype::float64), gpt = make_gpt(gpt2(), Dtype::float64);
    optim::AdamW alone(whole.parameters());
    train(
        whole, alone, [&](int64_t step) { backward(whole_loss(whole, text(step))); }, 1e-3);

    const TensorParallel parallel(gpt, gpt_plan(), ranks);
    optim::AdamW together(gpt.parameters());
    const auto as_map = [](const NamedTensors& tensors) {
      return std::map<std::string, Tensor>(tensors.begin(), tensors.end());
    };
    nn::load_state_dict(gpt, as_map(parallel.cut(nn::state_dict(whole))));
    together.load_state(as_map(parallel.cut(alone.state())));
    CHECK(difference(parallel.whole(gpt.parameters()), whole.parameters()) == 0);
    CHECK(difference(parallel.whole(together.state()), alone.state()) == 0);

    CHECK_THROWS_WITH_AS(parallel.slice("blocks.0"), doctest::Contains("no parameter 'blocks.0'"),
                         ValueError);
    CHECK_THROWS_AS(parallel.cut({{"head.bias.x", ones({2})}}), ValueError);
    CHECK_THROWS_WITH_AS(parallel.whole({{"norm.weight", ones({2})}}),
                         doctest::Contains("'norm.weight' must be [24], got [2]"), ShapeError);
    CHECK_THROWS_AS(parallel.whole({{"norm.weight.factor", ones({2})}}), ShapeError);
  });
}

TEST_CASE("the pieces of all ranks are the whole model, and so are ranges of them") {
  run_ranks(3, [](Communicator& ranks) {
    Gpt whole_model = make_gpt(gpt2(), Dtype::float64), gpt = make_gpt(gpt2(), Dtype::float64);
    const TensorParallel parallel(gpt, gpt_plan(), ranks);
    const NamedTensors expected = whole_model.parameters();
    for (bool in_ranges : {false, true}) {
      // In ranges each rank has two shards of each slice, cut in the middle of a row.
      Pieces mine;
      for (const Piece& piece : whole(gpt.parameters())) {
        const int64_t count = piece.region.count(), middle = in_ranges ? count / 2 : count;
        const Tensor flat = reshape(detach(piece.values), {count});
        for (const auto& [begin, end] : {std::pair(int64_t{0}, middle), std::pair(middle, count)}) {
          mine.push_back({piece.name, piece.region.range(begin, end), slice(flat, 0, begin, end)});
        }
      }
      mine = parallel.pieces(mine);
      // Each rank puts its pieces into a model of zeros; together they are all of it, and what is
      // not cut comes from every rank.
      for (const auto& [name, tensor] : expected) {
        const Tensor together = zeros(tensor.shape(), {.dtype = Dtype::float64});
        for (const Piece& piece : mine) {
          if (piece.name != name || piece.values.numel() == 0) continue;
          check(piece);
          copy_overlap(piece, whole(name, together));
        }
        ranks.all_reduce(together).wait();
        const double copies = parallel.slice(name).axis ? 1 : 3;
        CHECK(difference({{name, together / copies}}, {{name, tensor}}) < kExact);
      }
    }
    const Tensor part = ones({2, 24});
    CHECK_THROWS_WITH_AS(
        parallel.pieces(
            {{"blocks.0.attention.query.weight", Region::slice({8, 24}, 0, 0, 2), part}}),
        doctest::Contains("must be all of it or a range of its elements"), ShapeError);
  });
}

TEST_CASE("every rank starts with rank 0's numbers") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make_gpt(gpt2(), Dtype::float32);
    if (ranks.rank() == 1) gpt.blocks[0].attention.query.weight = nn::Parameter(zeros({24, 24}));
    const TensorParallel parallel(gpt, gpt_plan(), ranks);
    CHECK(difference(parallel.whole(gpt.parameters()),
                     make_gpt(gpt2(), Dtype::float32).parameters()) == 0);
  });
}

TEST_CASE("inside an Autocast the dtypes are those of the whole model") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt whole = make_gpt(gpt2(), Dtype::float32), gpt = make_gpt(gpt2(), Dtype::float32);
    const TensorParallel parallel(gpt, gpt_plan({.sequence = true}), ranks);
    const Autocast guard;
    CHECK(gpt.blocks[0].feed_forward->down(randn({1, 2, 48})).dtype() ==
          whole.blocks[0].feed_forward->down(randn({1, 2, 96})).dtype());
    const Tensor expected = whole_loss(whole, text(0)), loss = cut_loss(parallel, gpt, text(0));
    CHECK(loss.dtype() == expected.dtype());
    CHECK(loss.item<float>() == doctest::Approx(expected.item<float>()).epsilon(0.01));
  });
}

TEST_CASE("a model that is recorded is cut before it has numbers, and trains as if after") {
  for (int n : {1, 2, 3, 4}) {
    run_ranks(n, [](Communicator& ranks) {
      for (const Dtype dtype : {Dtype::float64, Dtype::bfloat16}) {
        const auto make = [&] {
          Gpt gpt(gpt2());
          gpt.to(dtype);
          return gpt;
        };
        manual_seed(7);
        Gpt expected = make();
        const TensorParallel first(expected, gpt_plan({.sequence = true}), ranks);
        manual_seed(7);
        Recipe recipe;
        Gpt gpt = recipe.record(make);
        const TensorParallel parallel(gpt, gpt_plan({.sequence = true}), ranks, &recipe);
        CHECK(gpt.tokens.weight.device() == Device::meta());
        nn::materialize(gpt, recipe);
        CHECK(gpt.tokens.weight.same(gpt.head.weight));
        CHECK(difference(gpt.parameters(), expected.parameters()) == 0);
        if (dtype == Dtype::bfloat16) continue;
        // What was attached on meta, works: sums of gradients of parts, too.
        backward(cut_loss(first, expected, text(0)));
        backward(cut_loss(parallel, gpt, text(0)));
        CHECK(difference(gradients_of(gpt), gradients_of(expected)) == 0);
      }
    });
  }
}

TEST_CASE("no rank has memory for a model that is cut before it has numbers") {
  const GptShape shape{.vocabulary = 23, .context = 8, .layers = 12, .heads = 4, .width = 64};
  run_ranks(4, [&](Communicator& ranks) {
    const Device device = Device::cpu(10 + ranks.rank());
    Allocator& memory = allocator(device);
    Recipe recipe;
    Gpt gpt = recipe.record([&] { return Gpt(shape); });
    const int64_t whole = 4 * gpt.parameter_count();
    const TensorParallel parallel(gpt, gpt_plan(), ranks, &recipe);
    memory.reset_peak();
    nn::materialize(gpt, recipe, device);
    CHECK(memory.stats().peak > whole / 4);
    CHECK(memory.stats().peak < whole / 4 + whole / 12);  // its slices, and the parameter in hand
  });
}

TEST_CASE("recipes that do not fit are refused on every rank") {
  run_ranks(2, [](Communicator& ranks) {
    manual_seed(ranks.rank());
    Recipe recipe;
    Gpt gpt = recipe.record([] { return Gpt(gpt2()); });
    CHECK_THROWS_WITH_AS(TensorParallel(gpt, gpt_plan(), ranks, &recipe),
                         doctest::Contains("its seed, say"), SharedError);
    CHECK_THROWS_WITH_AS(
        TensorParallel(gpt, gpt_plan(), ranks, ranks.rank() == 0 ? nullptr : &recipe),
        doctest::Contains("its seed, say"), SharedError);
    Gpt real(gpt2());
    CHECK_THROWS_WITH_AS(TensorParallel(real, gpt_plan(), ranks, &recipe),
                         doctest::Contains("'tokens.weight' is on cpu:0: a recipe comes with"),
                         SharedError);
  });
}

TEST_CASE("a model on meta is cut to shapes") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt(gpt2());
    gpt.to(Device::meta());
    const TensorParallel parallel(gpt, gpt_plan({.sequence = true}), ranks);
    CHECK(gpt.blocks[0].feed_forward->up.weight.shape() == Shape{48, 24});
    const Tensor logits = gpt(empty({3, kTokens}, {Dtype::int64, Device::meta()}));
    CHECK(logits.shape() == Shape{3, kTokens, slice_of(23, ranks.rank(), 2).count});
  });
}

}  // namespace
}  // namespace capstan::distributed
