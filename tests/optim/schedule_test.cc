// Tests of schedules: known answers, limits, and that they depend on nothing but the step.
#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"

namespace capstan::optim {
namespace {

using doctest::Approx;
using doctest::Contains;

TEST_CASE("a cosine over ten steps has known values") {
  const double expected[] = {1, .9755282581, .9045084972, .7938926261, .6545084972, .5};
  for (int step = 0; step <= 5; ++step) {
    CHECK(std::abs(cosine(step, 10) - expected[step]) < 1e-10);
    CHECK(cosine(10 - step, 10) == Approx(1 - expected[step]));
  }
  CHECK(cosine(10, 10) == 0);
  CHECK(cosine(1000, 10) == 0);
  CHECK(cosine(0, 0) == 0);
}

TEST_CASE("a warm-up moves from the first step and reaches 1") {
  CHECK(linear_warmup(0, 4) == 0.25);
  CHECK(linear_warmup(3, 4) == 1);
  CHECK(linear_warmup(100, 4) == 1);
  CHECK(linear_warmup(0, 0) == 1);
}

TEST_CASE("warm-up, peak, cosine, floor") {
  const WarmupCosine rate{.peak = 0.4, .warmup = 4, .total = 14, .floor = 0.1};
  const double rising[] = {0.1, 0.2, 0.3, 0.4};
  for (int step = 0; step < 4; ++step) CHECK(rate(step) == Approx(rising[step]));
  CHECK(rate(4) == 0.4);
  CHECK(rate(9) == Approx(0.25));
  CHECK(rate(14) == 0.1);
  CHECK(rate(99) == 0.1);
  for (int step = 4; step < 14; ++step) CHECK(rate(step) > rate(step + 1));
  CHECK(WarmupCosine{.peak = 2, .total = 10}(5) == Approx(1));
  CHECK(WarmupCosine{.peak = 2, .warmup = 3, .total = 3}(2) == 2);  // warm-up only
}

TEST_CASE("a schedule is a function: any step, in any order, gives the same again") {
  const WarmupCosine rate{.peak = 0.4, .warmup = 10, .total = 100};
  std::vector<double> forwards, backwards;
  for (int step = 0; step < 100; ++step) forwards.push_back(rate(step));
  for (int step = 99; step >= 0; --step) backwards.insert(backwards.begin(), rate(step));
  CHECK(forwards == backwards);
}

TEST_CASE("a schedule says which of its numbers make no sense") {
  const auto at = [](int64_t step, int64_t warmup, int64_t total) {
    return WarmupCosine{.peak = 1, .warmup = warmup, .total = total}(step);
  };
  CHECK_THROWS_WITH_AS(at(-1, 0, 10), Contains("[schedule] step and warm-up must be at least 0"),
                       ValueError);
  CHECK_THROWS_AS(at(0, -1, 10), ValueError);
  CHECK_THROWS_WITH_AS(at(0, 11, 10), Contains("within the 10 steps, got step 0 and warm-up 11"),
                       ValueError);
  CHECK_THROWS_AS(at(0, 0, -1), ValueError);
}

TEST_CASE("the linear scaling rule multiplies the rate by the ranks") {
  CHECK(scale_rate_linearly(0.1, 8) == Approx(0.8));
  CHECK(scale_rate_linearly(0.1, 1) == 0.1);
}

}  // namespace
}  // namespace capstan::optim
