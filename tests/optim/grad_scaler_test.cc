// Tests of dynamic loss scaling: a known sequence of scales, gradients, state, errors.
#include "optim/grad_scaler.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "tests/optim/parameters.h"

namespace capstan::optim {
namespace {

using doctest::Contains;
using testing::give_grad;
using testing::parameter;

TEST_CASE("the scale falls after an overflow and grows after enough finite steps: known answer") {
  GradScaler scaler({.interval = 2});
  const bool overflow[] = {true, true, false, false, false, true, false, false};
  const double expected[] = {32768, 16384, 16384, 32768, 32768, 16384, 16384, 32768};
  CHECK(scaler.factor() == 65536);
  for (int i = 0; i < 8; ++i) {
    scaler.update(!overflow[i]);
    CHECK(scaler.factor() == expected[i]);
  }
}

TEST_CASE("gradients of a scaled loss are, unscaled, those of the loss to the last bit") {
  const Tensor p = parameter({0.3, -0.7}, Dtype::float32), q = parameter({1.1}),
               unused = parameter({1});
  const auto loss = [&] { return sum(p * p * p); };
  backward(loss());
  const auto expected = p.grad().to_vector<float>();
  zero_grad(p);

  const GradScaler scaler;
  backward(scaler.scale(loss()));
  CHECK(p.grad().to_vector<float>()[0] == 65536 * expected[0]);
  give_grad(q, 65536);
  CHECK(scaler.unscale({{"p", p}, {"q", q}, {"unused", unused}}));
  CHECK(p.grad().to_vector<float>() == expected);
  CHECK(q.grad().item<double>() == 1);
  CHECK_FALSE(unused.has_grad());
}

TEST_CASE("a gradient that is not finite leaves all as they are") {
  const GradScaler scaler;
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const Tensor good = parameter({1}), worse = parameter({1, 2}, Dtype::float32);
    give_grad(good, 5);
    give_grad(worse, from_vector<double>({1, bad}, {2}));
    CHECK_FALSE(scaler.unscale({{"good", good}, {"worse", worse}}));
    CHECK(good.grad().item<double>() == 5);
  }
}

TEST_CASE("a scaler that is saved and loaded goes on as if nothing had been") {
  GradScaler whole({.start = 8, .interval = 3});
  for (const bool finite : {true, true, true, true, true}) whole.update(finite);
  CHECK(whole.factor() == 16);
  GradScaler resumed({.start = 8, .interval = 3});
  resumed.load_state(testing::saved(whole.state()));
  for (const bool finite : {true, false, true, true, true}) {
    whole.update(finite);
    resumed.update(finite);
    CHECK(resumed.factor() == whole.factor());
  }
  CHECK(whole.factor() == 32);
}

TEST_CASE("the scale stays a number") {
  GradScaler large({.start = 1e308, .interval = 1});
  large.update(true);
  large.update(true);
  CHECK(large.factor() == 1e308);
  GradScaler small({.start = 5e-324});
  CHECK_THROWS_WITH_AS(small.update(false), Contains("[grad_scaler] the scale would fall to 0"),
                       ValueError);
  CHECK(small.factor() == 5e-324);
}

TEST_CASE("options and states that make no sense are refused") {
  const std::pair<GradScalerOptions, const char*> wrong[] = {
      {{.start = 0}, "[grad_scaler] start must be a number above 0, got 0"},
      {{.start = std::nan("")}, "start must be"},
      {{.growth = 0.5}, "growth must be a number >= 1, got 0.5"},
      {{.growth = HUGE_VAL}, "growth must be"},
      {{.backoff = 0}, "backoff must be a number above 0, got 0"},
      {{.backoff = 1}, "backoff must be in [0, 1), got 1"},
      {{.interval = 0}, "interval must be at least 1, got 0"},
  };
  for (const auto& [options, text] : wrong) {
    CHECK_THROWS_WITH_AS(GradScaler{options}, Contains(text), ValueError);
  }

  GradScaler scaler;
  auto state = testing::saved(scaler.state());
  const auto check = [&](const char* text) {
    CHECK_THROWS_WITH_AS(scaler.load_state(state), Contains(text), ValueError);
    CHECK(scaler.factor() == 65536);
  };
  SUBCASE("a scale of 0") {
    state["scale"] = zeros({}, {.dtype = Dtype::float64});
    check("[load_state] scale must be a number above 0, got 0");
  }
  SUBCASE("a negative count") {
    state["scale"] = ones({}, {.dtype = Dtype::float64});
    state["finite_steps"] = full({}, -1, {.dtype = Dtype::int64});
    check("[load_state] finite_steps must be at least 0, got -1");
  }
  SUBCASE("missing") {
    state.erase("scale");
    check("the state is of another scaler: missing scale; not in the scaler none");
  }
}

}  // namespace
}  // namespace capstan::optim
