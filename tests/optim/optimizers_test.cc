// Tests of Sgd and AdamW: known answers, PyTorch's paths, state, errors.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/views.h"
#include "core/error.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/golden/golden.h"

namespace capstan::optim {
namespace {

using doctest::Contains;
using Make = std::function<std::unique_ptr<Optimizer>(const NamedTensors&)>;

Tensor parameter(const std::vector<double>& values, Dtype dtype = Dtype::float64) {
  return require_grad(
      dense_copy(cast(from_vector(values, {static_cast<int64_t>(values.size())}), dtype)));
}
void give_grad(const Tensor& parameter, const Tensor& grad) {
  zero_grad(parameter);
  accumulator(parameter).set_grad(cast(grad, parameter.dtype()));
}
void give_grad(const Tensor& parameter, double value) {
  give_grad(parameter, full(parameter.shape(), value, {.dtype = parameter.dtype()}));
}

Make sgd(SgdOptions options) {
  return [=](const NamedTensors& p) { return std::make_unique<Sgd>(p, options); };
}
Make adamw(AdamWOptions options = {}) {
  return [=](const NamedTensors& p) { return std::make_unique<AdamW>(p, options); };
}

struct Setting {
  std::string name;  // in make_golden.py
  Make make;
  double rate;
};
std::vector<Setting> settings() {
  return {{"sgd", sgd({}), 0.05},
          {"sgd_decay", sgd({.weight_decay = 0.1}), 0.05},
          {"sgd_momentum", sgd({.momentum = 0.9}), 0.05},
          {"sgd_nesterov", sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), 0.05},
          {"adamw", adamw(), 0.05},
          {"adamw_options",
           adamw({.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3}), 0.01}};
}

TEST_CASE("three AdamW steps with known answers") {
  const Tensor p = parameter({1});
  AdamW optimizer({{"p", p}}, {.weight_decay = 1e-2});
  const double grads[] = {0.1, -0.2, 0.3};
  const double expected[] = {0.9989900001, 0.9993461137, 0.9989928792};
  for (int i = 0; i < 3; ++i) {
    give_grad(p, grads[i]);
    optimizer.step(1e-3);
    CHECK(std::abs(p.item<double>() - expected[i]) < 1e-10);
  }
}

TEST_CASE("twenty steps of every kind go PyTorch's way") {
  const auto golden = testing::load_golden("optimizers");
  for (const Setting& setting : settings()) {
    for (Dtype dtype : {Dtype::float64, Dtype::float32}) {
      CAPTURE(setting.name);
      CAPTURE(to_string(dtype));
      const Tensor p = parameter(golden.at("start").to_vector<double>(), dtype);
      const auto optimizer = setting.make({{"p", p}});
      for (int64_t i = 0; i < 20; ++i) {
        give_grad(p, select(golden.at("grads"), 0, i));
        optimizer->step(setting.rate);
        const Tensor expected = select(golden.at(setting.name + "/steps"), 0, i);
        CHECK(testing::distance(p, expected) < (dtype == Dtype::float64 ? 1e-12 : 5e-6));
      }
    }
  }
}

TEST_CASE("a run that is saved, loaded and continued is the run, to the last bit") {
  const auto golden = testing::load_golden("optimizers");
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const auto steps = [&](Optimizer& optimizer, int64_t from, int64_t to) {
      const Tensor p = optimizer.parameters()[0].second;
      for (int64_t i = from; i < to; ++i) {
        give_grad(p, select(golden.at("grads"), 0, i));
        optimizer.step(setting.rate);
      }
    };
    const Tensor p = parameter(golden.at("start").to_vector<double>(), Dtype::float32);
    const auto whole = setting.make({{"net.p", p}});
    steps(*whole, 0, 7);

    const Tensor q = require_grad(dense_copy(p));
    std::map<std::string, Tensor> saved;
    for (const auto& [name, tensor] : whole->state()) saved[name] = dense_copy(tensor);
    CHECK(saved.at("net.p.steps").item<int64_t>() == 7);
    const auto resumed = setting.make({{"net.p", q}});
    resumed->load_state(saved);

    steps(*whole, 7, 20);
    steps(*resumed, 7, 20);
    CHECK(q.to_vector<float>() == p.to_vector<float>());
    for (const auto& [name, tensor] : resumed->state()) {
      for (const auto& [other_name, other] : whole->state()) {
        if (name == other_name) CHECK(tensor.to_vector<double>() == other.to_vector<double>());
      }
    }
  }
}

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
}

TEST_CASE("parameters without a gradient, and frozen ones, stay as they are") {
  const Tensor used = parameter({1}), unused = parameter({1}), frozen = full({1}, 1);
  AdamW optimizer({{"used", used}, {"unused", unused}, {"frozen", frozen}});
  give_grad(used, 1);
  optimizer.step(0.1);
  CHECK(used.item<double>() < 1);
  CHECK(unused.item<double>() == 1);
  CHECK(frozen.item<float>() == 1);
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : optimizer.state()) state[name] = tensor;
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
  check(DtypeError(""), {{"p", arange(3)}}, "'p' must be float32 or float64, got int64");
  check(ValueError(""), {{"p", require_grad(detach(slice(p, 0, 0, 4, 2)))}},
        "'p' of [2] must be contiguous");
}

TEST_CASE("options must make sense") {
  const NamedTensors p = {{"p", parameter({1})}};
  const double nan = std::nan("");
  for (const SgdOptions& options : std::vector<SgdOptions>{{.momentum = -0.1},
                                                           {.momentum = 1},
                                                           {.momentum = nan},
                                                           {.weight_decay = -1},
                                                           {.weight_decay = nan},
                                                           {.weight_decay = HUGE_VAL},
                                                           {.nesterov = true}}) {
    CHECK_THROWS_WITH_AS(Sgd(p, options), Contains("[sgd]"), ValueError);
  }
  for (const AdamWOptions& options : std::vector<AdamWOptions>{{.beta1 = 1},
                                                               {.beta1 = -0.1},
                                                               {.beta2 = 1},
                                                               {.beta2 = nan},
                                                               {.epsilon = 0},
                                                               {.epsilon = nan},
                                                               {.epsilon = HUGE_VAL},
                                                               {.weight_decay = -1},
                                                               {.weight_decay = HUGE_VAL}}) {
    CHECK_THROWS_WITH_AS(AdamW(p, options), Contains("[adamw]"), ValueError);
  }
}

TEST_CASE("a state that does not fit changes nothing") {
  const Tensor p = parameter({1, 2});
  AdamW optimizer({{"p", p}});
  give_grad(p, 1);
  optimizer.step(0.1);
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : optimizer.state()) state[name] = dense_copy(tensor);
  const auto check = [&]<class E>(E, const char* text) {
    state["p.first_moment"] = full({2}, 9, {.dtype = Dtype::float64});
    CHECK_THROWS_WITH_AS(optimizer.load_state(state), Contains(text), E);
    CHECK(optimizer.state()[0].second.to_vector<double>()[0] == doctest::Approx(0.1));
  };
  SUBCASE("missing") {
    state.erase("p.second_moment");
    check(ValueError(""), "'p.second_moment' is missing");
  }
  SUBCASE("foreign") {
    state["q.momentum"] = ones({2});
    check(ValueError(""), "'q.momentum' is not known here");
  }
  SUBCASE("another shape") {
    state["p.second_moment"] = ones({3}, {.dtype = Dtype::float64});
    check(ShapeError(""), "[load_state] p.second_moment is [2] here and [3] in the state");
  }
  SUBCASE("another dtype") {
    state["p.second_moment"] = ones({2});
    check(DtypeError(""), "p.second_moment is float64 here and float32 in the state");
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
