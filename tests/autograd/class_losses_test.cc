// Losses over classes where samples lie along several axes, and where targets are distributions,
// against the same losses of rows.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/golden/golden.h"

namespace capstan {
namespace {

using testing::distance;

constexpr TensorOptions kDouble{.dtype = Dtype::float64};

Tensor one_hot(const Tensor& targets, int64_t classes) {
  return cast(equal(unsqueeze(targets, -1), arange(classes)), Dtype::float64);
}

TEST_CASE("pixels are samples: [n, classes, h, w] as rows of classes") {
  Generator generator(1);
  const Tensor logits = require_grad(randn({2, 5, 3, 4}, 0, 1, kDouble, generator));
  Tensor targets = randint({2, 3, 4}, 0, 5, {.dtype = Dtype::int64}, generator);
  fill_elements(slice(reshape(targets, {24}), 0, 3, 7), -100);  // ignored
  const Tensor rows = reshape(permute(logits, {0, 2, 3, 1}), {24, 5}),
               list = reshape(targets, {24});
  const Tensor weights = from_vector<double>({1, 2, 0.5, 3, 1}, {5});
  for (const LossReduction reduction :
       {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    const auto check = [&](const Tensor& got, const Tensor& expected) {
      CHECK(got.shape() == (reduction == LossReduction::none ? targets.shape() : Shape{}));
      CHECK(distance(reshape(got, expected.shape()), expected) < 1e-14);
    };
    check(cross_entropy(logits, targets, reduction), cross_entropy(rows, list, reduction));
    const ClassLossOptions options{
        .reduction = reduction, .label_smoothing = 0.2, .weights = weights};
    check(cross_entropy(logits, targets, options), cross_entropy(rows, list, options));
    const ClassLossOptions plain{.reduction = reduction, .weights = weights};
    check(nll_loss(log_softmax(logits, 1), targets, plain),
          nll_loss(log_softmax(rows, 1), list, plain));
  }
  gradcheck([&](const auto& x) { return cross_entropy(x[0], targets); },
            {require_grad(dense_copy(detach(logits)))});
  CHECK(cross_entropy(ones({2, 3, 0}), zeros({2, 0}, {.dtype = Dtype::int64})).item<float>() == 0);
}

TEST_CASE("distributions: one-hot ones are targets, mixtures mix the losses") {
  Generator generator(2);
  const Tensor logits = require_grad(randn({6, 4}, 0, 1, kDouble, generator));
  const Tensor a = randint({6}, 0, 4, {.dtype = Dtype::int64}, generator),
               b = randint({6}, 0, 4, {.dtype = Dtype::int64}, generator);
  const Tensor mixed = one_hot(a, 4) * 0.3 + one_hot(b, 4) * 0.7;
  for (const LossReduction reduction :
       {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    const auto loss = [&](const Tensor& targets) {
      return cross_entropy(logits, targets, reduction);
    };
    CHECK(distance(loss(one_hot(a, 4)), loss(a)) < 1e-14);
    CHECK(distance(loss(mixed), loss(a) * 0.3 + loss(b) * 0.7) < 1e-14);
  }
  const ClassLossOptions smooth{.label_smoothing = 0.1};
  CHECK(distance(cross_entropy(logits, one_hot(a, 4), smooth), cross_entropy(logits, a, smooth)) <
        1e-14);
  // A class's weight multiplies its part of a sample's loss; the mean is over the samples.
  const Tensor weights = from_vector<double>({1, 2, 0.5, 3}, {4});
  CHECK(distance(cross_entropy(logits, one_hot(a, 4), {.weights = weights}),
                 cross_entropy(logits, a, {.reduction = LossReduction::sum, .weights = weights}) /
                     6) < 1e-14);
  gradcheck([&](const auto& x) { return cross_entropy(x[0], softmax(x[1], 1)); },
            {require_grad(dense_copy(detach(logits))),
             require_grad(randn({6, 4}, 0, 1, kDouble, generator))});
  const Tensor image = randn({2, 4, 3}, 0, 1, kDouble, generator);
  const Tensor of_pixels = softmax(randn({2, 4, 3}, 0, 1, kDouble, generator), 1);
  const auto as_rows = [](const Tensor& x) { return reshape(transpose(x, 1, 2), {6, 4}); };
  CHECK(distance(cross_entropy(image, of_pixels),
                 cross_entropy(as_rows(image), as_rows(of_pixels))) < 1e-14);
}

TEST_CASE("targets that do not fit are refused") {
  const Tensor image = zeros({2, 3, 4}), labels = zeros({2, 3}, {.dtype = Dtype::int64});
  CHECK_THROWS_WITH_AS(cross_entropy(image, labels),
                       "[cross_entropy] takes logits [n, classes, ...] and targets [n, ...], got "
                       "[2, 3, 4] and [2, 3]",
                       ShapeError);
  CHECK_THROWS_AS(nll_loss(image, labels), ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), zeros({2, 4})),
                       "[cross_entropy] distributions must have the shape of logits [n, classes, "
                       "...], got [2, 4] and [2, 3]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), zeros({2, 3}, kDouble)),
                       "[cross_entropy] distributions must be float32 as the logits, got float64",
                       DtypeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 3}), zeros({2, 3}), {.label_smoothing = 2}), ValueError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 3}), zeros({2, 3}), {.weights = zeros({2})}), ShapeError);
}

}  // namespace
}  // namespace capstan
