// Tests of ctc_loss where the harness of operations does not look: against a sum over all paths,
// infinite losses, and sequences without labels or frames.
#include "autograd/ctc.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"

namespace capstan {
namespace {

const TensorOptions kExact{.dtype = Dtype::float64};

/// The labels that a path spells: what is repeated counts once, then blanks go.
std::vector<int64_t> spelled(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> labels;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

/// The loss of one sequence by the definition, over all classes^frames paths.
double slow_loss(const Tensor& log_p, const std::vector<int64_t>& labels, int64_t blank) {
  const int64_t frames = log_p.size(0), classes = log_p.size(1);
  const auto numbers = log_p.to_vector<double>();
  double total = 0;
  std::vector<int64_t> path(frames, 0);
  for (bool more = true; more;) {
    if (spelled(path, blank) == labels) {
      double score = 0;
      for (int64_t t = 0; t < frames; ++t) score += numbers[t * classes + path[t]];
      total += std::exp(score);
    }
    more = false;
    for (int64_t& step : path) {
      step = (step + 1) % classes;
      if (step != 0) {
        more = true;
        break;
      }
    }
  }
  return -std::log(total);
}

TEST_CASE("ctc_loss is the sum over all paths that spell the labels") {
  const Tensor log_p = log_softmax(rand({5, 1, 3}, -2, 2, kExact));
  for (int64_t blank = 0; blank < 3; ++blank) {
    const int64_t a = (blank + 1) % 3, b = (blank + 2) % 3;
    const std::vector<std::vector<int64_t>> cases = {
        {}, {a}, {a, b}, {a, a}, {b, b, b}, {a, b, a}, {a, b, a, b, a}, {a, a, a, a}};
    for (const auto& labels : cases) {
      for (int64_t frames = 0; frames <= 5; ++frames) {
        const int64_t count = static_cast<int64_t>(labels.size());
        const Tensor loss = ctc_loss(log_p, from_vector(labels, {1, count}), {frames}, {count},
                                     {.blank = blank, .reduction = LossReduction::sum});
        const double expected = slow_loss(select(slice(log_p, 0, 0, frames), 1, 0), labels, blank);
        if (std::isinf(expected)) {
          CHECK(loss.item<double>() == expected);
        } else {
          CHECK(loss.item<double>() == doctest::Approx(expected).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE(
    "the gradient of ctc_loss is exact for any numbers, not only for logarithms that add up") {
  const Tensor x = require_grad(rand({6, 2, 4}, -3, 1, kExact));
  const Tensor labels = from_vector<int64_t>({1, 1, 3, 2, 3, -7}, {2, 3});
  gradcheck(
      [&](const auto& in) {
        return ctc_loss(in[0], labels, {6, 4}, {3, 2}, {.reduction = LossReduction::none});
      },
      {x});
}

TEST_CASE("an infinite loss has NaN for a gradient, or with zero_infinity neither") {
  const Tensor x = require_grad(rand({3, 2, 3}, -2, 0, kExact));
  const Tensor labels = from_vector<int64_t>({1, 1, 1, 2}, {2, 2});  // 1 _ 1 in 2 frames, 1 2 in 3
  const auto loss = [&](bool zero) {
    return ctc_loss(x, labels, {2, 3}, {2, 2},
                    {.reduction = LossReduction::sum, .zero_infinity = zero});
  };
  const auto slopes = [&] {
    const auto numbers = x.grad().to_vector<double>();
    zero_grad(x);
    return numbers;
  };
  const auto place = [](int t, int i) { return (t * 2 + i) * 3; };
  CHECK(loss(false).item<double>() == INFINITY);
  backward(loss(false));
  const auto broken = slopes();
  CHECK(std::isnan(broken[place(0, 0)]));
  CHECK(std::isnan(broken[place(1, 0) + 2]));
  CHECK(broken[place(2, 0)] == 0);  // behind the end
  CHECK(broken[place(0, 1) + 1] < 0);

  CHECK(std::isfinite(loss(true).item<double>()));
  backward(loss(true));
  const auto whole = slopes();
  for (int t = 0; t < 3; ++t) {
    for (int k = 0; k < 3; ++k) {
      CHECK(whole[place(t, 0) + k] == 0);
      CHECK(whole[place(t, 1) + k] == broken[place(t, 1) + k]);
    }
  }
}

TEST_CASE("long sequences neither underflow nor lose digits in float32") {
  const Tensor x = require_grad(rand({2000, 1, 5}, -4, 4));
  std::vector<int64_t> labels;
  for (int i = 0; i < 300; ++i) labels.push_back(1 + i / 2 % 4);
  const Tensor targets = from_vector(labels, {1, 300});
  const auto loss = [&](const Tensor& log_p) {
    return ctc_loss(log_p, targets, {2000}, {300}, {.reduction = LossReduction::sum});
  };
  const Tensor exact = require_grad(cast(detach(log_softmax(x)), Dtype::float64));
  const Tensor single = require_grad(detach(log_softmax(x)));
  const Tensor a = loss(single), b = loss(exact);
  CHECK(std::isfinite(a.item<double>()));
  CHECK(a.item<double>() == doctest::Approx(b.item<double>()).epsilon(1e-6));
  backward(a);
  backward(b);
  const Tensor per_frame = sum(exact.grad(), {2});  // the posteriors of a frame add up to 1
  for (double total : per_frame.to_vector<double>())
    CHECK(total == doctest::Approx(-1).epsilon(1e-9));
  CHECK(max(absolute(cast(single.grad(), Dtype::float64) - exact.grad())).item<double>() < 1e-6);
}

TEST_CASE("ctc_loss gives the same bits on any number of threads") {
  const Tensor log_p = log_softmax(rand({20, 7, 6}, -2, 2));
  const Tensor targets = randint({7, 5}, 1, 6);
  const auto results = [&](int threads) {
    set_thread_count(threads);
    const Tensor x = require_grad(dense_copy(log_p));
    backward(ctc_loss(x, targets, {20, 15, 20, 8, 9, 20, 3}, {5, 0, 3, 2, 4, 5, 1}));
    set_thread_count(2);
    return x.grad().to_vector<float>();
  };
  const auto alone = results(1);
  CHECK(results(2) == alone);
  CHECK(results(5) == alone);
}

TEST_CASE("ctc_loss refuses a gradient of its gradient") {
  const Tensor x = require_grad(rand({3, 1, 3}));
  const Tensor loss = ctc_loss(x, ones({1, 1}, {.dtype = Dtype::int64}), {3}, {1});
  CHECK_THROWS_WITH_AS(grad(loss, x, {.create_graph = true}),
                       "[ctc_loss] has no gradient of the gradient", GradientError);
}

}  // namespace
}  // namespace capstan
