// Random numbers under tensor parallelism: one start, and one dropout, on any number of ranks.
#include "autograd/checkpoint.h"
#include "autograd/functions.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "distributed/comm/thread.h"
#include "distributed/tensor_parallel/door.h"
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

/// A feed-forward part with dropout before, inside and after its region, which remembers what each
/// made of ones.
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
      kept = detach(dropout(ones(x.shape())));
      return x * kept;
    };
    const Tensor y = up(drop(before, x, kept[0]));
    return drop(after, down(drop(inside, y, kept[1])), kept[2]);
  }
};

TEST_CASE("before, inside and after a region each rank drops its part of what one would") {
  constexpr int64_t kLength = 12;
  for (int n : {1, 2, 4}) {
    for (bool sequence : {false, true}) {
      run_ranks(n, [=](Communicator& ranks) {
        manual_seed(5);
        Layer whole, layer = whole.clone();
        const TensorParallel parallel(layer, {{{"", Cut::feed_forward}}, sequence}, ranks);
        const auto part = [&](const Tensor& x, int axis) {
          return door::part(x, axis, ranks).to_vector<float>();
        };
        for (int pass = 0; pass < 3; ++pass) {
          manual_seed(pass);
          whole(ones({2, kLength, 8}));
          const Generator after = default_generator();
          manual_seed(pass);
          layer(ones({2, sequence ? kLength / ranks.size() : kLength, 8}));
          CHECK(default_generator() == after);
          // What goes in is gathered before the module sees it.
          CHECK(layer.kept[0].to_vector<float>() == whole.kept[0].to_vector<float>());
          CHECK(layer.kept[1].to_vector<float>() == part(whole.kept[1], 2));
          CHECK(layer.kept[2].to_vector<float>() ==
                (sequence ? part(whole.kept[2], 1) : whole.kept[2].to_vector<float>()));
        }
        layer.eval();
        layer(ones({2, kLength, 8}));
        for (const Tensor& kept : layer.kept) CHECK(all(equal(kept, 1)).item<bool>());
      });
    }
  }
}

TEST_CASE("copies drop as the model does, and an error inside of a region does no harm") {
  run_ranks(2, [](Communicator& ranks) {
    manual_seed(5);
    Layer whole, model = whole.clone();
    const TensorParallel parallel(model, {{{"", Cut::feed_forward}}}, ranks);
    Layer copy = model.clone();
    const HookHandle fails =
        model.down.before_forward.add([](nn::Module&) { throw ValueError("inside"); });
    CHECK_THROWS_AS(model(ones({2, 8})), ValueError);
    manual_seed(1);
    whole(ones({2, 8}));
    manual_seed(1);
    copy(ones({2, 8}));
    CHECK(copy.kept[0].to_vector<float>() == whole.kept[0].to_vector<float>());
    CHECK(copy.kept[2].to_vector<float>() == whole.kept[2].to_vector<float>());
  });
}

TEST_CASE("a Transformer's layers drop as on one rank") {
  run_ranks(3, [](Communicator& ranks) {
    const TensorOptions exact{.dtype = Dtype::float64};
    manual_seed(1);
    const Tensor x = randn({2, 6, 12}, 0, 1, exact), weights = randn({2, 6, 12}, 0, 1, exact);
    nn::TransformerEncoderLayer whole(12, 6, {.hidden = 12, .dropout = 0.3});
    whole.to(Dtype::float64);
    auto layer = whole.clone();
    const TensorParallel parallel(
        layer, {{{"attention", Cut::heads}, {"feed_forward", Cut::feed_forward}}}, ranks);
    for (auto* model : {&whole, &layer}) {
      manual_seed(2);
      backward(sum((*model)(x)*weights));
    }
    CHECK(difference(parallel.whole(gradients_of(layer)), gradients_of(whole)) < 1e-12);
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

}  // namespace
}  // namespace capstan::distributed
