// Tests of Lbfgs: PyTorch's path without line search, what the line search promises, hard minima,
// state, errors.
#include "optim/lbfgs.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/threads.h"
#include "tests/golden/golden.h"
#include "tests/optim/parameters.h"

namespace capstan::optim {
namespace {

using doctest::Contains;
using testing::parameter;
using testing::parameter_of;

using Loss = std::function<Tensor()>;
/// Counts its calls, and keeps all losses.
struct Closure {
  Loss loss;
  std::vector<double> losses;
  double operator()() {
    const Tensor value = loss();
    backward(value);
    losses.push_back(value.item<double>());
    return losses.back();
  }
};

/// Rosenbrock's valley, sum over i of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2: least, 0, at ones.
Loss rosenbrock(const Tensor& x) {
  return [x] {
    const int64_t n = x.size(0);
    const Tensor head = slice(x, 0, 0, n - 1), tail = slice(x, 0, 1, n);
    return sum(square(tail - square(head)) * 100.0 + square(1.0 - head));
  };
}

TEST_CASE("twenty calls without line search go PyTorch's way") {
  const auto golden = testing::load_golden("optimizers");
  const Tensor p = parameter_of(golden.at("start")), weights = golden.at("lbfgs/weights");
  Lbfgs lbfgs({{"p", p}}, {.history = 3, .iterations = 2, .line_search = false});
  Closure closure{[&] { return sum(weights * square(p - 1.0)) + square(sum(square(p))) * 0.1; },
                  {}};
  for (int64_t i = 0; i < 20; ++i) {
    lbfgs.step(0.5, std::ref(closure));
    CHECK(testing::distance(p, select(golden.at("lbfgs/steps"), 0, i)) < 1e-9);
  }
}

TEST_CASE("with line search it finds the end of a curved valley") {
  for (const Dtype dtype : {Dtype::float64, Dtype::float32}) {
    CAPTURE(to_string(dtype));
    const Tensor x = parameter({-1.2, 1, -1.2, 1, 0.5, 2, -1}, dtype);
    Lbfgs lbfgs({{"x", x}}, {.iterations = 100});
    Closure closure{rosenbrock(x), {}};
    for (int i = 0; i < 3; ++i) lbfgs.step(1, std::ref(closure));
    for (const double each : x.to_vector<double>()) {
      CHECK(std::abs(each - 1) < (dtype == Dtype::float64 ? 1e-5 : 1e-2));
    }
    CHECK(closure.losses.size() < 300);
  }
}

TEST_CASE("every searched step fulfils the strong Wolfe conditions") {
  const Tensor x = parameter({-1.2, 1, -1.2, 1});
  Lbfgs lbfgs({{"x", x}}, {.iterations = 1});
  Closure closure{rosenbrock(x), {}};
  const auto at = [&](const std::vector<double>& values) {
    const Tensor y = parameter(values);
    const Tensor loss = rosenbrock(y)();
    backward(loss);
    return std::pair(loss.item<double>(), y.grad().to_vector<double>());
  };
  for (int i = 0; i < 25; ++i) {
    const auto before = x.to_vector<double>();
    const double reported = lbfgs.step(1, std::ref(closure));
    const auto after = x.to_vector<double>();
    const auto [loss0, grad0] = at(before);
    const auto [loss1, grad1] = at(after);
    CHECK(reported == loss0);
    double slope0 = 0, slope1 = 0;  // along the change, times its length
    for (size_t k = 0; k < before.size(); ++k) {
      slope0 += grad0[k] * (after[k] - before[k]);
      slope1 += grad1[k] * (after[k] - before[k]);
    }
    CHECK(slope0 < 0);
    CHECK(loss1 <= loss0 + 1e-4 * slope0 + 1e-12);
    CHECK(std::abs(slope1) <= -0.9 * slope0 + 1e-12);
  }
}

TEST_CASE("a quadratic of n parameters, in several tensors, is solved") {
  const Tensor a = parameter({3, -2}), b = parameter_of(ones({2, 2})),
               unused = parameter_of(ones({3})), none = parameter_of(zeros({0}));
  const Tensor weights = from_vector<double>({1, 10, 100, 5}, {2, 2});
  Lbfgs lbfgs({{"a", a}, {"b", b}, {"unused", unused}, {"none", none}},
              {.iterations = 25, .change_tolerance = 1e-14});
  Closure closure{[&] { return sum(square(a - 1.0)) + sum(weights * square(b)); }, {}};
  lbfgs.step(1, std::ref(closure));
  for (const double each : a.to_vector<double>()) CHECK(std::abs(each - 1) < 1e-5);
  for (const double each : b.to_vector<double>()) CHECK(std::abs(each) < 1e-5);
  CHECK(unused.to_vector<double>() == std::vector<double>{1, 1, 1});
}

TEST_CASE("the search steps back from where the loss is not a number") {
  const Tensor x = parameter({0.01});
  Lbfgs lbfgs({{"x", x}}, {.iterations = 50});
  // x - log(x): least at 1, and NaN below 0. The first step goes far beyond.
  Closure closure{[&] { return sum(square(x) - log(x)); }, {}};
  lbfgs.step(1000, std::ref(closure));
  CHECK(x.item<double>() == doctest::Approx(std::sqrt(0.5)).epsilon(1e-6));
}

TEST_CASE("at a minimum nothing happens") {
  const Tensor x = parameter({1, 1, 1});
  Lbfgs lbfgs({{"x", x}});
  Closure closure{rosenbrock(x), {}};
  CHECK(lbfgs.step(1, std::ref(closure)) == 0);
  CHECK(closure.losses.size() == 1);
  CHECK(x.to_vector<double>() == std::vector<double>{1, 1, 1});
}

TEST_CASE("a run that is saved, loaded and continued is the run, to the last bit") {
  for (const bool line_search : {true, false}) {
    const Tensor x = parameter({-1.2, 1, 0.5, 2}, Dtype::float32);
    const LbfgsOptions options{.history = 3, .iterations = 2, .line_search = line_search};
    const double rate = line_search ? 1 : 1e-3;
    Lbfgs whole({{"x", x}}, options);
    Closure closure{rosenbrock(x), {}};
    for (int i = 0; i < 4; ++i) whole.step(rate, std::ref(closure));

    const Tensor y = parameter_of(x, Dtype::float32);
    Lbfgs resumed({{"x", y}}, options);
    resumed.load_state(testing::saved(whole.state()));
    Closure again{rosenbrock(y), {}};
    for (int i = 0; i < 4; ++i) {
      whole.step(rate, std::ref(closure));
      resumed.step(rate, std::ref(again));
      CHECK(y.to_vector<float>() == x.to_vector<float>());
    }
  }
}

TEST_CASE("any number of threads gives the same bits") {
  std::vector<float> expected;
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    const Tensor x = parameter_of(testing::some_values({70'000}, 1), Dtype::float32);
    Lbfgs lbfgs({{"x", x}}, {.iterations = 4});
    Closure closure{[&] { return sum(square(square(x) - 1.0)); }, {}};
    lbfgs.step(1, std::ref(closure));
    if (threads == 1) expected = x.to_vector<float>();
    CHECK(x.to_vector<float>() == expected);
  }
  set_thread_count(1);
}

TEST_CASE("what makes no sense is refused") {
  const Tensor p = parameter({1, 2});
  const std::pair<LbfgsOptions, const char*> wrong[] = {
      {{.history = 0}, "[lbfgs] history and iterations must be at least 1, got 0 and 20"},
      {{.iterations = 0}, "got 10 and 0"},
      {{.gradient_tolerance = -1}, "[lbfgs] gradient_tolerance must be a number >= 0, got -1"},
      {{.change_tolerance = std::nan("")}, "[lbfgs] change_tolerance must be"},
  };
  for (const auto& [options, text] : wrong) {
    CHECK_THROWS_WITH_AS(Lbfgs({{"p", p}}, options), Contains(text), ValueError);
  }
  const Tensor part = parameter({1, 2});
  accumulator(part).part_of_whole = true;
  CHECK_THROWS_WITH_AS(Lbfgs({{"p", part}}),
                       Contains("[lbfgs] 'p' is one rank's part of a parameter, and lbfgs"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Lbfgs({{"p", p}, {"q", parameter({1}, Dtype::float32)}}),
                       Contains("[lbfgs] parameters must be of one dtype: 'p' is float64, 'q' is"),
                       DtypeError);
  CHECK_THROWS_WITH_AS(Lbfgs({{"p", p}, {"p", p}}), Contains("two parameters are named"),
                       ValueError);

  Lbfgs lbfgs({{"p", p}}, {.line_search = false});
  Closure fine{[&] { return sum(square(p)); }, {}};
  for (const double rate : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(lbfgs.step(rate, std::ref(fine)), Contains("[lbfgs.step] the rate must"),
                         ValueError);
  }
  CHECK_THROWS_WITH_AS(lbfgs.step(1, [&] { return fine(), std::nan(""); }),
                       Contains("[lbfgs.step] the loss (nan) and its gradients must be finite"),
                       ValueError);
  CHECK_THROWS_WITH_AS(lbfgs.step(1,
                                  [&] {
                                    fine();
                                    accumulator(p).unreduced = true;
                                    return 1.0;
                                  }),
                       Contains("the gradient of 'p' is this rank's share only"), GradientError);
  accumulator(p).unreduced = false;
  CHECK(p.to_vector<double>() == std::vector<double>{1, 2});
  Closure steep{[&] { return -sum(exp(p * 1e3)); }, {}};
  fill_elements(p, 0.1);
  CHECK_THROWS_WITH_AS(lbfgs.step(1e3, std::ref(steep)), Contains("must be finite"), ValueError);

  CHECK_THROWS_WITH_AS(Lbfgs({{"p", parameter({1}, Dtype::bfloat16)}}),
                       Contains("[lbfgs] takes float32 or float64 parameters, got bfloat16"),
                       DtypeError);
  auto state = testing::saved(lbfgs.state());
  state["pairs"] = full({}, 11, {.dtype = Dtype::int64});
  CHECK_THROWS_WITH_AS(lbfgs.load_state(state), Contains("[load_state] 11 pairs of at most 10"),
                       ValueError);
  state["pairs"] = full({}, -1, {.dtype = Dtype::int64});
  CHECK_THROWS_WITH_AS(lbfgs.load_state(state), Contains("[load_state] -1 pairs"), ValueError);
  state.erase("p.s");
  CHECK_THROWS_WITH_AS(lbfgs.load_state(state), Contains("missing p.s"), ValueError);
}

}  // namespace
}  // namespace capstan::optim
