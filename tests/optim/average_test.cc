// Tests of averaged weights: both kinds against their definition, swapping, state, errors.
#include "optim/average.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/views.h"
#include "core/error.h"
#include "core/threads.h"
#include "tests/optim/parameters.h"

namespace capstan::optim {
namespace {

using doctest::Approx;
using doctest::Contains;
using testing::parameter;

void set(const Tensor& weight, double value) { fill_elements(weight, value); }
double average_of(const AveragedWeights& average) {
  return average.state()[0].second.to_vector<double>()[0];
}

TEST_CASE("an exponential average forgets the first weights soon, and then decays as it is told") {
  CHECK(Ema{.decay = 0.9}(0) == Approx(0.9));
  CHECK(Ema{.decay = 0.9}(1) == Approx(1 - 2.0 / 11));
  CHECK(Ema{.decay = 0.9}(80) == Approx(0.1));
  CHECK(Ema{.decay = 0.9}(1'000'000) == Approx(0.1));
  CHECK(Ema{.decay = 0}(5) == 1);

  const Tensor w = parameter({1, 2});
  AveragedWeights average({{"w", w}}, Ema{.decay = 0.5});
  double expected = 1;
  for (int64_t step = 0; step < 20; ++step) {
    set(w, static_cast<double>(step * step));
    average.update(step);
    const double decay = std::min(0.5, (1.0 + step) / (10.0 + step));
    expected = decay * expected + (1 - decay) * static_cast<double>(step * step);
    CHECK(average_of(average) == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("stochastic weight averaging is the mean over its steps") {
  const Tensor w = parameter({7});
  AveragedWeights average({{"w", w}}, Swa{.start = 3, .every = 2});
  double sum = 0;
  int count = 0;
  for (int64_t step = 0; step < 12; ++step) {
    const double value = std::cos(static_cast<double>(step));
    set(w, value);
    average.update(step);
    if (step >= 3 && step % 2 == 1) sum += value, ++count;
    CHECK(average_of(average) == Approx(count == 0 ? 7 : sum / count).epsilon(1e-12));
    if (step == 3) CHECK(average_of(average) == value);  // to the last bit
  }
}

TEST_CASE("any function of the step is a kind of average, for weights of any dtype and size") {
  const Tensor a = parameter({1}), b = testing::parameter_of(ones({100'000}), Dtype::float32),
               none = testing::parameter_of(zeros({0, 2}));
  AveragedWeights average({{"a", a}, {"b", b}, {"none", none}}, [](int64_t) { return 0.25; });
  set(a, 5);
  set(b, 5);
  average.update(0);
  CHECK(average_of(average) == 2);
  for (const float x : average.state()[1].second.to_vector<float>()) CHECK(x == 2);
}

TEST_CASE("the averages are the model's weights while the guard lives") {
  const Tensor w = parameter({1, 2}), v = parameter({0.1});
  AveragedWeights average({{"w", w}, {"v", v}}, Swa{});
  average.update(0);
  set(w, 3);
  average.update(1);
  const auto own = w.to_vector<double>();
  {
    const AveragedWeights::Swap swapped = average.swap_in();
    CHECK(w.to_vector<double>() == std::vector<double>{2, 2.5});
    CHECK(w.requires_grad());
    CHECK_THROWS_WITH_AS(average.update(2), Contains("[average.update] the model has the averages"),
                         ValueError);
    CHECK_THROWS_WITH_AS(average.load_state({}), Contains("[average.load_state] the model has"),
                         ValueError);
    CHECK_THROWS_WITH_AS((void)average.swap_in(), Contains("[average.swap_in] the model has"),
                         ValueError);
    CHECK(w.to_vector<double>() == std::vector<double>{2, 2.5});
  }
  CHECK(w.to_vector<double>() == own);
  CHECK(v.item<double>() == 0.1);
  CHECK_NOTHROW(average.update(2));
}

TEST_CASE("an average that is saved, loaded and continued is the same, to the last bit") {
  const Tensor w = testing::parameter_of(testing::some_values({50}, 1), Dtype::float32);
  AveragedWeights whole({{"w", w}}, Ema{.decay = 0.9});
  const auto update = [&](AveragedWeights& average, int64_t step) {
    copy_elements(testing::some_values({50}, static_cast<uint32_t>(step)), w);
    average.update(step);
  };
  for (int64_t step = 0; step < 7; ++step) update(whole, step);
  const auto state = testing::saved(whole.state());
  AveragedWeights resumed({{"w", w}}, Ema{.decay = 0.9});
  resumed.load_state(state);
  for (int64_t step = 7; step < 20; ++step) {
    update(whole, step);
    update(resumed, step);
  }
  CHECK(resumed.state()[0].second.to_vector<float>() == whole.state()[0].second.to_vector<float>());
  CHECK_THROWS_WITH_AS(resumed.load_state({}),
                       Contains("[load_state] the state is of another average: missing w"),
                       ValueError);
}

TEST_CASE("16-bit weights are averaged in float32") {
  const Tensor w = parameter({1}, Dtype::bfloat16);
  AveragedWeights average({{"w", w}}, [](int64_t) { return 0x1p-10; });
  fill_elements(w, 2);
  average.update(0);
  CHECK(average.state()[0].second.dtype() == Dtype::float32);
  CHECK(average.state()[0].second.item<double>() == 1 + 0x1p-10);
  {
    const auto guard = average.swap_in();
    CHECK(w.dtype() == Dtype::bfloat16);
    CHECK(w.item<double>() == 1);
  }
  CHECK(w.item<double>() == 2);
}

TEST_CASE("what makes no sense is refused") {
  const Tensor w = parameter({1, 2, 3, 4});
  const auto check = [&]<class E>(E, const NamedTensors& weights, const char* text) {
    CHECK_THROWS_WITH_AS(AveragedWeights(weights, Ema{}), Contains(text), E);
  };
  check(ValueError(""), {{"w", w}, {"w", parameter({1})}}, "[average] two weights are named 'w'");
  check(DtypeError(""), {{"w", arange(3)}}, "'w' must be floating point, got int64");
  check(ValueError(""), {{"w", slice(detach(w), 0, 0, 4, 2)}}, "'w' of [2] must be contiguous");
  CHECK_THROWS_WITH_AS(AveragedWeights({{"w", w}}, nullptr), Contains("what kind of average"),
                       ValueError);

  const std::pair<AverageShare, const char*> wrong[] = {
      {Ema{.decay = 1}, "[ema] decay must be in [0, 1), got 1"},
      {Ema{.decay = -0.1}, "[ema] decay must be"},
      {Swa{.start = -1}, "[swa] start must be at least 0 and every at least 1, got -1 and 1"},
      {Swa{.every = 0}, "got 0 and 0"},
      {[](int64_t) { return 1.5; }, "[average] the share of a step must be in [0, 1], got 1.5"},
      {[](int64_t) { return -0.5; }, "got -0.5 at step 3"},
      {[](int64_t) { return std::nan(""); }, "[average] the share"},
  };
  for (const auto& [share, text] : wrong) {
    AveragedWeights average({{"w", w}}, share);
    CHECK_THROWS_WITH_AS(average.update(3), Contains(text), ValueError);
    CHECK(average.state()[0].second.to_vector<double>() == w.to_vector<double>());
  }
  for (const AverageShare& share : {AverageShare(Ema{}), AverageShare(Swa{})}) {
    AveragedWeights average({{"w", w}}, share);
    CHECK_THROWS_WITH_AS(average.update(-1), Contains("steps count from 0, got -1"), ValueError);
  }
}

}  // namespace
}  // namespace capstan::optim
