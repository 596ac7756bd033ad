// Tests of what all optimizers share, with Sgd and AdamW: state, gradients that are missing or not
// reduced, errors.
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/threads.h"
#include "optim/adamw.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "tests/optim/parameters.h"

namespace capstan::optim {
namespace {

using doctest::Contains;
using testing::give_grad;
using testing::parameter;

TEST_CASE("the state is named after parameters and quantities") {
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : optimizer.state()) names.push_back(name);
    return names;
  };
  const NamedTensors parameters = {{"a.weight", parameter({1, 2})}, {"b", parameter({3})}};
  CHECK(names(Sgd(parameters)) == std::vector<std::string>{"a.weight.steps", "b.steps"});
  CHECK(names(Sgd(parameters, {.momentum = 0.9})) ==
        std::vector<std::string>{"a.weight.momentum", "a.weight.steps", "b.momentum", "b.steps"});
  CHECK(names(AdamW({parameters[1]})) ==
        std::vector<std::string>{"b.first_moment", "b.second_moment", "b.steps"});
  CHECK(names(Rmsprop({parameters[1]}, {.momentum = 0.9})) ==
        std::vector<std::string>{"b.square_average", "b.momentum", "b.steps"});
}

TEST_CASE("parameters without a gradient, and frozen ones, stay as they are") {
  const Tensor used = parameter({1}), unused = parameter({1}), frozen = full({1}, 1);
  AdamW optimizer({{"used", used}, {"unused", unused}, {"frozen", frozen}});
  give_grad(used, 1);
  optimizer.step(0.1);
  CHECK(used.item<double>() < 1);
  CHECK(unused.item<double>() == 1);
  CHECK(frozen.item<float>() == 1);
  const auto state = testing::saved(optimizer.state());
  CHECK(state.at("used.steps").item<int64_t>() == 1);
  CHECK(state.at("unused.steps").item<int64_t>() == 0);  // its bias correction has not begun
  optimizer.zero_grad();
  CHECK_FALSE(used.has_grad());
}

TEST_CASE("a step changes parameters in place, and the tape notices") {
  const Tensor p = parameter({2}), y = p * p;
  Sgd optimizer({{"p", p}});
  give_grad(p, 1);
  optimizer.step(0.5);
  CHECK(p.item<double>() == 1.5);
  CHECK_THROWS_AS(backward(y), GradientError);
}

TEST_CASE("a step with a rate of 0 changes nothing, and bad rates are refused") {
  const Tensor p = parameter({2});
  Sgd optimizer({{"p", p}});
  give_grad(p, 1);
  optimizer.step(0);
  for (double rate : {-0.1, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(optimizer.step(rate), Contains("[optimizer.step] the rate must be"),
                         ValueError);
  }
  CHECK(p.item<double>() == 2);
}

TEST_CASE("a gradient that was not reduced is refused before anything is changed") {
  const Tensor a = parameter({1}), b = parameter({1});
  Sgd optimizer({{"a", a}, {"layer.b", b}});
  give_grad(a, 1);
  give_grad(b, 1);
  accumulator(b).unreduced = true;
  CHECK_THROWS_WITH_AS(optimizer.step(0.1), Contains("the gradient of 'layer.b' is this rank's"),
                       GradientError);
  CHECK(a.item<double>() == 1);
  accumulator(b).unreduced = false;
  optimizer.step(0.1);
  CHECK(a.item<double>() == doctest::Approx(0.9));
}

TEST_CASE("parameters must be distinct leaves") {
  const Tensor p = parameter({1, 2, 3, 4});
  const auto check = [&]<class E>(E, const NamedTensors& parameters, const char* text) {
    CHECK_THROWS_WITH_AS(Sgd{parameters}, Contains(text), E);
  };
  check(ValueError(""), {{"p", p}, {"p", parameter({1})}}, "two parameters are named 'p'");
  check(ValueError(""), {{"p", p}, {"q", p}}, "'p' and 'q' are one parameter");
  check(GradientError(""), {{"p", p * 2}}, "'p' is the result of an operation");
  check(DtypeError(""), {{"p", arange(3)}}, "'p' must be floating point, got int64");
  check(ValueError(""), {{"p", require_grad(detach(slice(p, 0, 0, 4, 2)))}},
        "'p' of [2] must be contiguous");
}

TEST_CASE("many parameters of many sizes: each gets what it would get alone") {
  NamedTensors together, alone;
  for (int64_t i = 0; i < 60; ++i) {
    const Shape shape = {i % 7 == 3 ? 0 : i % 5 == 0 ? 40'000 + i : i + 1};
    const Dtype dtype = i % 4 == 1 ? Dtype::float64 : Dtype::float32;
    const Tensor values = testing::some_values(shape, static_cast<uint32_t>(i));
    const std::string name = "p" + std::to_string(i);
    together.emplace_back(name, testing::parameter_of(values, dtype));
    alone.emplace_back(name, testing::parameter_of(values, dtype));
  }
  AdamW all(together);
  std::vector<AdamW> each;
  for (const auto& named : alone) each.push_back(AdamW({named}));
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < together.size(); ++i) {
      if (step == 0 && i % 3 == 0) continue;  // so that steps are counted differently
      give_grad(together[i].second, 0.1 * static_cast<double>(i));
      give_grad(alone[i].second, 0.1 * static_cast<double>(i));
      each[i].step(0.01);
    }
    all.step(0.01);
    all.zero_grad();
  }
  for (size_t i = 0; i < together.size(); ++i) {
    CHECK(together[i].second.to_vector<double>() == alone[i].second.to_vector<double>());
  }
}

TEST_CASE("many small steps of a 16-bit parameter are not lost") {
  const Tensor p = parameter({1}, Dtype::bfloat16);  // whose neighbour below is 1 - 2^-8
  Sgd sgd({{"p", p}});
  for (int i = 0; i < 64; ++i) {
    give_grad(p, 1);
    sgd.step(0x1p-12);
  }
  CHECK(p.item<double>() == 1 - 0x1p-6);
  CHECK(sgd.state()[0].first == "p.master");
  CHECK(sgd.state()[0].second.dtype() == Dtype::float32);
}

TEST_CASE("master weights follow what is written into the parameter, and only that") {
  const Tensor p = parameter({1, 2}, Dtype::bfloat16);
  Sgd sgd({{"p", p}});
  const auto step = [&] {
    give_grad(p, 1);
    sgd.step(0x1p-12);
  };
  step();
  CHECK(p.to_vector<double>() == std::vector<double>{1, 2});
  const auto state = testing::saved(sgd.state());
  const Tensor weights = dense_copy(detach(p));

  copy_elements(from_vector<float>({1, 3}, {2}), p);  // the first is written, and stays
  step();
  CHECK(sgd.state()[0].second.to_vector<double>() == std::vector<double>{1 - 0x1p-11, 3 - 0x1p-12});

  // A checkpoint, its weights before or after its state.
  for (const bool weights_first : {true, false}) {
    if (weights_first) copy_elements(weights, p);
    sgd.load_state(state);
    if (!weights_first) copy_elements(weights, p);
    step();
    CHECK(sgd.state()[0].second.to_vector<double>() ==
          std::vector<double>{1 - 0x1p-11, 2 - 0x1p-11});
  }
}

TEST_CASE("a state that does not fit changes nothing") {
  const Tensor p = parameter({1, 2});
  AdamW optimizer({{"p", p}});
  give_grad(p, 1);
  optimizer.step(0.1);
  auto state = testing::saved(optimizer.state());
  const auto check = [&]<class E>(E, const char* text) {
    state["p.first_moment"] = full({2}, 9, {.dtype = Dtype::float64});
    CHECK_THROWS_WITH_AS(optimizer.load_state(state), Contains(text), E);
    CHECK(optimizer.state()[0].second.to_vector<double>()[0] == doctest::Approx(0.1));
  };
  SUBCASE("missing") {
    state.erase("p.second_moment");
    check(ValueError(""), "the state is of another optimizer: missing p.second_moment; not in");
  }
  SUBCASE("foreign") {
    state["q.momentum"] = ones({2});
    check(ValueError(""), "missing none; not in the optimizer q.momentum");
  }
  SUBCASE("another shape") {
    state["p.second_moment"] = ones({3}, {.dtype = Dtype::float64});
    check(ShapeError(""),
          "[load_state] p.second_moment is [2] in the optimizer and [3] in the state");
  }
  SUBCASE("another dtype") {
    state["p.second_moment"] = ones({2});
    check(DtypeError(""), "p.second_moment is float64 in the optimizer and float32 in the state");
  }
  SUBCASE("without elements") {
    state["p.second_moment"] = ones({2}, {Dtype::float64, Device::meta()});
    check(DeviceError(""), "p.second_moment has no elements");
  }
  SUBCASE("a negative count") {
    state["p.steps"] = from_vector<int64_t>({-3}, {});
    check(ValueError(""), "p.steps must be at least 0, got -3");
  }
}

}  // namespace
}  // namespace capstan::optim
