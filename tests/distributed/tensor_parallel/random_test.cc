// Random numbers under tensor parallelism: one start on any number of ranks; dropout that is equal
// where tensors are, and differs where they do.
#include <set>

#include "autograd/checkpoint.h"
#include "autograd/functions.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "distributed/comm/thread.h"
#include "nn/layers.h"
#include "nn/transformer.h"
#include "tests/distributed/tensor_parallel/gpts.h"

namespace capstan::distributed {
namespace {

using models::Gpt;

TEST_CASE("a model starts with the same numbers on any number of ranks") {
  const auto start = [](uint64_t seed) {
    manual_seed(seed);
    return Gpt(gpt2());
  };
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [&](Communicator& ranks) {
      Gpt whole = start(3), gpt = start(3);
      const TensorParallel parallel(gpt, models::gpt_plan(), ranks);
      CHECK(difference(parallel.whole(gpt.parameters()), whole.parameters()) == 0);
    });
  }
}

/// Whether all ranks have the same elements.
bool equal_on_all(const Tensor& x, Communicator& ranks) {
  std::string text;
  for (double value : x.to_vector<double>()) text += std::to_string(value) + " ";
  const auto texts = ranks.all_gather_strings(text);
  return std::set<std::string>(texts.begin(), texts.end()).size() == 1;
}

/// A feed-forward part with dropout before, inside and after its region, which remembers what each
/// dropped.
struct Layer : nn::Module {
  nn::Dropout before{0.5};
  nn::Linear up{8, 64};
  nn::Dropout inside{0.5};
  nn::Linear down{64, 8};
  nn::Dropout after{0.5};
  CAPSTAN_MODULE(Layer, before, up, inside, down, after)

  Tensor kept[3];
  Tensor forward(const Tensor& x) {
    const auto drop = [](nn::Dropout& dropout, const Tensor& x, Tensor& kept) {
      kept = not_equal(detach(dropout(ones(x.shape()))), 0);
      return x * kept;
    };
    const Tensor y = up(drop(before, x, kept[0]));
    return drop(after, down(drop(inside, y, kept[1])), kept[2]);
  }
};

TEST_CASE(
    "dropout differs where tensors are cut, is the same elsewhere, and another in each pass") {
  for (bool sequence : {false, true}) {
    run_ranks(2, [sequence](Communicator& ranks) {
      manual_seed(5);
      Layer layer;
      const TensorParallel parallel(layer, {{{"", Cut::feed_forward}}, sequence}, ranks);
      std::vector<int> last[3];
      for (int pass = 0; pass < 3; ++pass) {
        const Tensor y = layer(ones({2, sequence ? 2 : 4, 8}));
        CHECK(equal_on_all(layer.kept[0], ranks));
        CHECK_FALSE(equal_on_all(layer.kept[1], ranks));
        // After a scatter ranks have parts of the sequence, else equal tensors.
        CHECK(equal_on_all(layer.kept[2], ranks) == !sequence);
        if (!sequence) CHECK(equal_on_all(y, ranks));
        CHECK(equal_on_all(scalar(default_generator().offset()), ranks));
        CHECK(default_generator().seed() == 5);
        for (int i = 0; i < 3; ++i) {
          const std::vector<int> kept = layer.kept[i].to_vector<int>();
          CHECK(kept != last[i]);
          last[i] = kept;
        }
        const double part = mean(cast(layer.kept[1], Dtype::float64)).item<double>();
        CHECK(std::abs(part - 0.5) < 0.2);
      }
      layer.eval();
      layer(ones({2, sequence ? 2 : 4, 8}));
      for (const Tensor& kept : layer.kept) CHECK(all(kept).item<bool>());
    });
  }
}

TEST_CASE("copies have regions of their own, and an error inside of one does no harm") {
  run_ranks(2, [](Communicator& ranks) {
    manual_seed(5);
    nn::FeedForward model(8, {.hidden = 16, .dropout = 0.5});
    const TensorParallel parallel(model, {{{"", Cut::feed_forward}}}, ranks);
    nn::FeedForward copy = model.clone();
    copy(ones({2, 8}));
    CHECK(default_generator().seed() == 5);
    CHECK_THROWS_AS(model(ones({2, 7})), ShapeError);
    for (int pass = 0; pass < 2; ++pass) {
      model(ones({2, 8}));
      CHECK(default_generator().seed() == 5);
    }
  });
}

/// As Gpt's forward, with blocks that are run again in backward.
Tensor checkpointed(Gpt& gpt, const Tensor& tokens) {
  Tensor x = gpt.tokens(tokens) + slice(gpt.positions->weight, 0, 0, tokens.size(1));
  x = gpt.drop(x);
  for (auto& block : gpt.blocks) {
    x = checkpoint([&](const Tensor& y) { return block(y); }, x);
  }
  return gpt.head(gpt.norm(x));
}

TEST_CASE("blocks that are run again in backward drop the same again") {
  run_ranks(3, [](Communicator& ranks) {
    Gpt plain = make_gpt(gpt2(), Dtype::float64, 0.2), again = plain.clone();
    const TensorPlan plan = models::gpt_plan({.sequence = true});
    const TensorParallel parallel(plain, plan, ranks), other(again, plan, ranks);
    manual_seed(1);
    const Tensor loss = parallel.cross_entropy("head", plain(text(0).inputs), text(0).targets);
    manual_seed(1);
    const Tensor same =
        other.cross_entropy("head", checkpointed(again, text(0).inputs), text(0).targets);
    CHECK(same.item<double>() == loss.item<double>());
    backward(loss);
    backward(same);
    CHECK(difference(gradients_of(again), gradients_of(plain)) < 1e-14);
  });
}

TEST_CASE("dropout on parts of a sequence differs, and gradients follow it") {
  run_ranks(2, [](Communicator& ranks) {
    Gpt gpt = make_gpt(gpt2(), Dtype::float64, 0.3);
    const TensorParallel parallel(gpt, models::gpt_plan({.sequence = true}), ranks);
    Tensor seen;
    const HookHandle handle = gpt.blocks[0].drop.after_forward.add(
        [&](nn::Module&, std::span<const Tensor> y) { seen = equal(y[0], 0); });
    const auto loss = [&] {
      manual_seed(9);  // the same masks in every call
      return parallel.cross_entropy("head", gpt(text(0).inputs), text(0).targets);
    };
    backward(loss());
    CHECK_FALSE(equal_on_all(cast(seen, Dtype::float32), ranks));
    // Finite differences of a few weights: of a norm, of a bias after a scatter, of a slice.
    const Tensor weights[] = {gpt.blocks[0].attention_norm.weight,
                              *gpt.blocks[0].attention.out.bias, gpt.norm.weight};
    for (const Tensor& w : weights) {
      const double step = 1e-5, slope = w.grad().to_vector<double>()[3];
      double losses[2];
      const Tensor value = detach(w);
      for (int side : {0, 1}) {
        value.mutable_data<double>()[3] += side == 0 ? step : -2 * step;
        losses[side] = loss().item<double>();
      }
      value.mutable_data<double>()[3] += step;
      CHECK(slope == doctest::Approx((losses[0] - losses[1]) / (2 * step)).epsilon(1e-5));
    }
  });
}

}  // namespace
}  // namespace capstan::distributed
