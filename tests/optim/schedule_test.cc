// Tests of schedules: PyTorch's rates, known answers, limits, that they depend on nothing but the
// step, and which constants are refused.
#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "tests/golden/golden.h"

namespace capstan::optim {
namespace {

using doctest::Approx;
using doctest::Contains;

struct Named {
  std::string name;  // in make_optim_golden.py
  Schedule rate;
};

std::vector<Named> pytorchs() {
  return {
      {"constant", Constant{0.4}},
      {"step", StepDecay{.rate = 0.4, .every = 7, .factor = 0.5}},
      {"multi_step", MultiStepDecay{.rate = 0.4, .milestones = {3, 10, 11, 30}, .factor = 0.5}},
      {"exponential", ExponentialDecay{.rate = 0.4, .factor = 0.9}},
      {"cosine", Cosine{.peak = 0.4, .total = 39, .floor = 0.01}},
      {"restarts", CosineRestarts{.peak = 0.4, .period = 7, .floor = 0.01}},
      {"restarts_growing", CosineRestarts{.peak = 0.4, .period = 5, .growth = 2}},
      {"one_cycle", OneCycle{.peak = 0.4, .total = 40}},
      {"one_cycle_linear", OneCycle{.peak = 0.4,
                                    .total = 40,
                                    .rising = 0.4,
                                    .start_divisor = 10,
                                    .end_divisor = 100,
                                    .straight = true}},
      {"polynomial", Polynomial{.peak = 0.4, .total = 30, .power = 2}},
      {"linear", Linear{.from = 0.1, .to = 0.3, .length = 30}},
  };
}

std::vector<Schedule> all() {
  std::vector<Schedule> all;
  for (const Named& named : pytorchs()) all.push_back(named.rate);
  all.push_back(Then{Constant{0.2}, 5, Linear{.from = 0.2, .to = 0, .length = 10}});
  all.push_back(WarmUp{4, CosineRestarts{.peak = 1, .period = 3}});
  all.push_back(WarmupCosine{.peak = 0.4, .warmup = 10, .total = 100});
  all.push_back(WarmupStableDecay{.peak = 0.4, .warmup = 5, .stable = 10, .decay = 7});
  return all;
}

TEST_CASE("forty steps of every kind go PyTorch's way") {
  const auto golden = testing::load_golden("schedules");
  for (const auto& [name, rate] : pytorchs()) {
    CAPTURE(name);
    const auto expected = golden.at(name).to_vector<double>();
    for (int64_t step = 0; step < 40; ++step) {
      CAPTURE(step);
      CHECK(std::abs(rate(step) - expected[step]) < 1e-12 + 1e-9 * expected[step]);
    }
  }
}

TEST_CASE("a schedule is a function: any step, in any order, gives the same again") {
  for (const Schedule& rate : all()) {
    std::vector<double> forwards, backwards;
    for (int64_t step = 0; step < 100; ++step) forwards.push_back(rate(step));
    for (int64_t step = 99; step >= 0; --step) backwards.insert(backwards.begin(), rate(step));
    CHECK(forwards == backwards);
  }
}

TEST_CASE("rates stay rates at the last step there is") {
  for (const Schedule& rate : all()) {
    const double last = rate(std::numeric_limits<int64_t>::max() - 1);
    CHECK(last >= 0);
    CHECK(last <= 1);
  }
}

TEST_CASE("a cosine over ten steps has known values") {
  const double expected[] = {1, .9755282581, .9045084972, .7938926261, .6545084972, .5};
  const Cosine cosine{.peak = 1, .total = 10};
  for (int step = 0; step <= 5; ++step) {
    CHECK(std::abs(cosine(step) - expected[step]) < 1e-10);
    CHECK(cosine(10 - step) == Approx(1 - expected[step]));
  }
}

TEST_CASE("where a schedule ends it stays, to the last bit") {
  for (const int64_t step : {10, 11, 1000}) {
    CHECK(Cosine{.peak = 1, .total = 10, .floor = 0.1}(step) == 0.1);
    CHECK(Polynomial{.peak = 1, .total = 10, .floor = 0.1}(step) == 0.1);
    CHECK(Linear{.from = 1, .to = 0.1, .length = 10}(step) == Approx(0.1));
    CHECK(OneCycle{.peak = 1, .total = 10}(step) == 1 / 25.0 / 1e4);
    CHECK(WarmupCosine{.peak = 1, .warmup = 3, .total = 10, .floor = 0.1}(step) == 0.1);
  }
  CHECK(Cosine{.peak = 1, .total = 0}(0) == 0);
  CHECK(Linear{.from = 1, .to = 0, .length = 0}(0) == 0);
}

TEST_CASE("a warm-up moves from the first step, and hands over to any other") {
  const WarmUp constant{4, Constant{2}};
  CHECK(constant(0) == 0.5);
  CHECK(constant(3) == 2);
  CHECK(constant(100) == 2);
  CHECK(WarmUp{0, Constant{2}}(0) == 2);
  const StepDecay decay{.rate = 1, .every = 3, .factor = 0.5};
  const WarmUp decaying{4, decay};
  for (int64_t step = 0; step < 10; ++step) CHECK(decaying(4 + step) == decay(step));
}

TEST_CASE("one schedule after another, each with its own steps") {
  const Linear fall{.from = 1, .to = 0, .length = 4};
  const Then rate{Constant{1}, 3, Then{fall, 2, fall}};
  const double expected[] = {1, 1, 1, 1, 0.75, 1, 0.75, 0.5, 0.25, 0, 0};
  for (int step = 0; step < 11; ++step) CHECK(rate(step) == expected[step]);
}

TEST_CASE("warm-up, peak, cosine, floor") {
  const WarmupCosine rate{.peak = 0.4, .warmup = 4, .total = 14, .floor = 0.1};
  const double rising[] = {0.1, 0.2, 0.3, 0.4};
  for (int step = 0; step < 4; ++step) CHECK(rate(step) == Approx(rising[step]));
  CHECK(rate(4) == 0.4);
  CHECK(rate(9) == Approx(0.25));
  CHECK(rate(14) == 0.1);
  for (int step = 4; step < 14; ++step) CHECK(rate(step) > rate(step + 1));
  CHECK(WarmupCosine{.peak = 2, .total = 10}(5) == Approx(1));
  CHECK(WarmupCosine{.peak = 2, .warmup = 3, .total = 3}(2) == 2);  // warm-up only
}

TEST_CASE("warm-up, stable, decay") {
  const WarmupStableDecay rate{.peak = 1, .warmup = 2, .stable = 3, .decay = 4, .floor = 0.1};
  const double expected[] = {
      0.5, 1, 1, 1, 1, 1, 0.55, 1 - 0.9 * std::sqrt(0.5), 1 - 0.9 * std::sqrt(0.75), 0.1, 0.1};
  for (int step = 0; step < 11; ++step) CHECK(rate(step) == Approx(expected[step]));
  const WarmupStableDecay warmup_only{.peak = 1, .warmup = 2, .stable = 0, .decay = 0};
  CHECK(warmup_only(1) == 1);
  CHECK(warmup_only(2) == 0);
}

TEST_CASE("a schedule says which of its numbers make no sense") {
  for (const Schedule& rate : all()) {
    CHECK_THROWS_WITH_AS(rate(-1), Contains("[schedule] steps count from 0, got -1"), ValueError);
  }
  const double nan = std::nan("");
  const Constant constant{1};
  const std::pair<Schedule, const char*> wrong[] = {
      {Constant{-1}, "rate must be a number >= 0, got -1"},
      {Constant{HUGE_VAL}, "rate must be"},
      {StepDecay{.rate = nan, .every = 1}, "rate must be"},
      {StepDecay{.rate = 1, .every = 0}, "every must be at least 1, got 0"},
      {StepDecay{.rate = 1, .every = 1, .factor = 0}, "factor must be a number above 0, got 0"},
      {MultiStepDecay{.rate = -1, .milestones = {}}, "rate must be"},
      {MultiStepDecay{.rate = 1, .milestones = {5, 3}}, "milestones must rise, got [5, 3]"},
      {MultiStepDecay{.rate = 1, .milestones = {}, .factor = nan}, "factor must be"},
      {ExponentialDecay{.rate = -1, .factor = 1}, "rate must be"},
      {ExponentialDecay{.rate = 1, .factor = -1}, "factor must be"},
      {Linear{.from = -1, .to = 0, .length = 1}, "from must be"},
      {Linear{.from = 1, .to = nan, .length = 1}, "to must be"},
      {Linear{.from = 1, .to = 0, .length = -1}, "length must be at least 0, got -1"},
      {Polynomial{.peak = -1, .total = 1}, "peak must be"},
      {Polynomial{.peak = 1, .total = -1}, "total must be"},
      {Polynomial{.peak = 1, .total = 1, .power = 0}, "power must be"},
      {Polynomial{.peak = 1, .total = 1, .floor = -1}, "floor must be"},
      {Cosine{.peak = nan, .total = 1}, "peak must be"},
      {Cosine{.peak = 1, .total = -1}, "total must be"},
      {Cosine{.peak = 1, .total = 1, .floor = -1}, "floor must be"},
      {CosineRestarts{.peak = -1, .period = 1}, "peak must be"},
      {CosineRestarts{.peak = 1, .period = 0}, "period must be at least 1"},
      {CosineRestarts{.peak = 1, .period = 1, .growth = 0}, "growth must be at least 1"},
      {CosineRestarts{.peak = 1, .period = 1, .floor = -1}, "floor must be"},
      {OneCycle{.peak = -1, .total = 10}, "peak must be"},
      {OneCycle{.peak = 1, .total = 0}, "total must be at least 1"},
      {OneCycle{.peak = 1, .total = 10, .rising = 1}, "of 10 steps a part of 1 cannot rise"},
      {OneCycle{.peak = 1, .total = 10, .rising = 0.05}, "a part of 0.05 cannot rise"},
      {OneCycle{.peak = 1, .total = 10, .rising = nan}, "cannot rise"},
      {OneCycle{.peak = 1, .total = 10, .start_divisor = 0}, "start_divisor must be"},
      {OneCycle{.peak = 1, .total = 10, .end_divisor = nan}, "end_divisor must be"},
      {Then{constant, -1, constant}, "length must be"},
      {Then{nullptr, 1, constant}, "first is no schedule"},
      {Then{constant, 1, nullptr}, "second is no schedule"},
      {WarmUp{-1, constant}, "length must be"},
      {WarmUp{1, nullptr}, "then is no schedule"},
      {WarmUp{1, Constant{-1}}, "rate must be"},
      {WarmupCosine{.peak = 1, .warmup = -1, .total = 10}, "warmup must be at least 0, got -1"},
      {WarmupCosine{.peak = 1, .warmup = 11, .total = 10}, "11 steps does not fit into 10"},
      {WarmupCosine{.peak = 1, .total = -1}, "does not fit"},
      {WarmupStableDecay{.peak = -1, .stable = 0, .decay = 1}, "peak must be"},
      {WarmupStableDecay{.peak = 1, .warmup = -1, .stable = 1, .decay = 1}, "warmup must be"},
      {WarmupStableDecay{.peak = 1, .stable = -1, .decay = 1}, "stable must be"},
      {WarmupStableDecay{.peak = 1, .stable = 1, .decay = -1}, "decay must be"},
      {WarmupStableDecay{.peak = 1, .stable = 0, .decay = 1, .floor = -1}, "floor must be"},
  };
  for (const auto& [rate, text] : wrong) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(rate(0), Contains(text), ValueError);
  }
}

TEST_CASE("the linear scaling rule multiplies the rate by the ranks") {
  CHECK(scale_rate_linearly(0.1, 8) == Approx(0.8));
  CHECK(scale_rate_linearly(0.1, 1) == 0.1);
}

}  // namespace
}  // namespace capstan::optim
