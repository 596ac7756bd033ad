// Tests of gradients of gradients and of grad(): which inputs, what is accumulated, what is
// refused. (Every operation's second gradient is checked in operations_test.cc.)
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/jacobian.h"
#include "autograd/matmul.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Values = std::vector<double>;

Tensor vector(const Values& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}
Tensor leaf(const Values& values) { return require_grad(vector(values)); }
Values values(const Tensor& x) { return x.to_vector<double>(); }
int64_t bytes_held() { return memory_stats(Device::cpu()).current; }

TEST_CASE("the derivatives of x^4, one after the other") {
  const Tensor x = leaf({2});
  Tensor y = square(square(x));
  for (const double expected : {32.0, 48.0, 48.0, 24.0, 0.0}) {  // 4x^3, 12x^2, 24x, 24, 0
    y = grad(y, x, {.create_graph = true, .unreached = Unreached::zeros});
    CHECK(values(y) == Values{expected});
  }
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("results that were saved lead on to what made them") {
  const Tensor x = leaf({0.5});
  for (const auto& [f, second] : std::vector<std::pair<Tensor (*)(const Tensor&), double>>{
           {exp, std::exp(0.5)},
           {sqrt, -0.25 * std::pow(0.5, -1.5)},
           {capstan::tanh, -2 * std::tanh(0.5) / std::pow(std::cosh(0.5), 2)}}) {
    const Tensor slope = grad(f(x), x, {.create_graph = true});
    CHECK(grad(slope, x).item<double>() == doctest::Approx(second));
  }
}

TEST_CASE("far above 0 an exponential below has no second derivative, not NaN") {
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& x) { return elu(x); }, selu,
           [](const Tensor& x) { return celu(x, 0.5); }}) {
    const Tensor x = leaf({1000});
    CHECK(grad(grad(f(x), x, {.create_graph = true}), x).item<double>() == 0);
  }
}

TEST_CASE("where the pieces of a function meet, the gradient is that of the flat one") {
  const Tensor x = leaf({-3, 3});
  CHECK(values(grad(sum(hardswish(x)), x)) == Values{0, 1});
  CHECK(values(grad(sum(hardsigmoid(x)), x)) == Values{0, 0});
}

TEST_CASE("an infinite input above 0 leaves the slopes of prelu alone") {
  const Tensor x = vector({INFINITY, -2}), slope = leaf({0.5});
  CHECK(values(grad(sum(prelu(x, slope)), slope)) == Values{-2});
}

TEST_CASE("backward with create_graph leaves a gradient on the tape, which adds up") {
  const int64_t before = bytes_held();
  {
    const Tensor x = leaf({3}), y = x * x * x;
    backward(y, {.create_graph = true});
    CHECK(values(x.grad()) == Values{27});
    CHECK(x.grad().requires_grad());
    backward(y, {.create_graph = true});  // the tape is kept
    CHECK(values(x.grad()) == Values{54});
    const Tensor penalty = square(x.grad());  // (6 x^2)^2
    zero_grad(x);
    backward(penalty);
    CHECK(values(x.grad()) == Values{144.0 * 27});
    CHECK_FALSE(x.grad().requires_grad());
    zero_grad(x);
  }
  CHECK(bytes_held() == before);
}

TEST_CASE("a gradient on the tape and one off it add up off the tape") {
  const Tensor x = leaf({3});
  backward(x * x, {.create_graph = true});
  const Tensor kept = x.grad();
  backward(x * x);
  CHECK(values(x.grad()) == Values{12});
  CHECK_FALSE(x.grad().requires_grad());
  CHECK(values(kept) == Values{6});  // not changed in place
}

TEST_CASE("a gradient that lives in a bucket cannot be on the tape") {
  const Tensor x = leaf({1, 2});
  accumulator(x).place_grad(zeros({2}, {.dtype = Dtype::float64}));
  CHECK_THROWS_WITH_AS(backward(sum(x * x), {.create_graph = true}),
                       Contains("a gradient of [2] that lives in a bucket cannot be on the tape"),
                       GradientError);
}

TEST_CASE("a penalty on the gradient trains the weights") {
  const Tensor w = require_grad(from_vector<double>({1, 2, 3, 4}, {2, 2})), x = leaf({0.3, -0.2});
  const auto penalty = [](const std::vector<Tensor>& in) {
    const bool recording = grad_enabled();
    GradMode on(true);
    const Tensor input = require_grad(detach(in[1]));
    const Tensor slope =
        grad(sum(sigmoid(matmul(in[0], input))), input, {.create_graph = recording});
    return sum(square(slope));
  };
  gradcheck(penalty, {w, vector({0.3, -0.2})});
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("grad takes leaves and results, and accumulates nothing") {
  const Tensor a = leaf({2}), b = leaf({3}), product = a * b, y = product * product + a;
  const auto grads = grad({y}, {a, product, b, y, a}, {.retain_graph = true});
  CHECK(values(grads[0]) == Values{2 * 6 * 3 + 1});
  CHECK(values(grads[1]) == Values{12});
  CHECK(values(grads[2]) == Values{24});
  CHECK(values(grads[3]) == Values{1});
  CHECK(values(grads[4]) == values(grads[0]));
  CHECK_FALSE(a.has_grad());
  CHECK_FALSE(grads[0].requires_grad());
  CHECK(grad(std::vector{y}, std::vector<Tensor>{}).empty());
  CHECK(values(grad(y, b)) == Values{24});
  CHECK_THROWS_WITH_AS(grad(y, b), Contains("freed"), GradientError);
}

TEST_CASE("grad adds up over outputs, weighted by their seeds") {
  const Tensor x = leaf({1, 2}), y = x * x, z = y * 3;
  CHECK(values(grad({y, z}, {x}, {.seeds = {vector({1, 10}), vector({100, 1000})}})[0]) ==
        Values{2 * 301, 4 * 3010});
  const Tensor total = sum(x * x);
  CHECK(values(grad({total, total}, {x}, {.retain_graph = true})[0]) == Values{4, 8});
  CHECK_THROWS_WITH_AS(grad({total, total}, {x}, {.seeds = {Tensor()}}),
                       Contains("[grad] needs a seed for each of 2 outputs, or none; got 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(grad(y, x), Contains("[grad] a root of [2] has more than one"), ShapeError);
}

TEST_CASE("grad computes only what lies between") {
  const Tensor x = leaf({2}), w = leaf({3});
  int runs = 0;
  const auto counted = [&](const Tensor& in) {
    return record("counted", no_grad([&] { return in * 1; }), inputs(in), [&](const Tensor& g) {
      ++runs;
      return gradients(Tensor(g));
    });
  };
  bool wanted_w = true;
  const Tensor aside = counted(w);
  const Tensor y = record("pair", no_grad([&] { return x * aside; }), inputs(x, aside),
                          [&](const Tensor& g, Wanted wanted) {
                            wanted_w = wanted[1];
                            return gradients(Tensor(g), Tensor(g));
                          });
  grad(y, x, {.retain_graph = true});
  CHECK(runs == 0);
  CHECK_FALSE(wanted_w);
  grad(y, w);
  CHECK(runs == 1);
  CHECK(wanted_w);
}

TEST_CASE("grad runs hooks on gradients, but not those around backward") {
  const Tensor x = leaf({2}), y = x * 3;
  int around = 0, accumulated = 0;
  const HookHandle start = on_backward_start([&](const BackwardPass&) { ++around; });
  const HookHandle end = on_backward_end([&] { ++around; });
  const HookHandle leaf_hook = on_accumulation(x, [&](const Tensor&) { ++accumulated; });
  const HookHandle twice = on_gradient(y, [](const Tensor& g) { return g * 2; });
  const HookHandle more = on_gradient(x, [](const Tensor& g) { return g + 1; });
  CHECK(values(grad(y, x)) == Values{7});
  CHECK(around + accumulated == 0);
}

TEST_CASE("an input that is not reached is refused, or 0") {
  const Tensor x = leaf({1, 2}), other = leaf({3, 4}), y = sum(x * x);
  CHECK_THROWS_WITH_AS(grad({y}, {x, other}), Contains("no output depends on input 1 of [2]"),
                       GradientError);
  const auto grads = grad({y}, {other, x}, {.unreached = Unreached::zeros});
  CHECK(values(grads[0]) == Values{0, 0});
  CHECK(values(grads[1]) == Values{2, 4});
  CHECK_THROWS_WITH_AS(grad(sum(x), vector({1})), Contains("input 0 of [1] does not require"),
                       GradientError);
  CHECK_THROWS_WITH_AS(grad(vector({1}), x), Contains("[grad] the tensor of [1] does not depend"),
                       GradientError);
}

TEST_CASE("a formula that is not recorded is refused, not taken for a constant") {
  const Tensor x = leaf({2});
  const auto with = [&](const auto& formula) {
    return record("mine", no_grad([&] { return x * x; }), inputs(x), formula);
  };
  const Tensor off =
      with([&](const Tensor& g) { return gradients(no_grad([&] { return g * x * 2; })); });
  CHECK_THROWS_WITH_AS(grad(off, x, {.retain_graph = true, .create_graph = true}),
                       Contains("[mine] has no gradient of the gradient"), GradientError);
  CHECK(values(grad(off, x)) == Values{4});
  const Tensor flat = with([](const Tensor& g) { return gradients(detach(g * 0)); });
  CHECK(values(grad(flat, x, {.create_graph = true})) == Values{0});  // 0 is 0
}

TEST_CASE("a product with zeros has second derivatives") {
  const auto product = [](const Tensor& x) { return prod(x); };
  CHECK(values(hessian(product, vector({0, 2, 3}))) == Values{0, 3, 2, 3, 0, 0, 2, 0, 0});
  CHECK(values(hessian(product, vector({0, 0, 5}))) == Values{0, 5, 0, 5, 0, 0, 0, 0, 0});
}

TEST_CASE("the Jacobian has a row for each result") {
  const Tensor m = from_vector<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto f = [&](const Tensor& x) { return matmul(m, x); };
  const Tensor j = jacobian(f, vector({1, 1, 1}));
  CHECK(j.shape() == Shape{2, 3});
  CHECK(values(j) == values(m));
  CHECK_FALSE(j.requires_grad());
  CHECK(jacobian([](const Tensor& x) { return x * x; }, ones({2, 2})).shape() == Shape{2, 2, 2, 2});
  CHECK(values(jacobian(
            [](const Tensor&) {
              return vector({1, 2});
            },
            vector({3}))) == Values{0, 0});
  CHECK(jacobian([](const Tensor& x) { return x; }, zeros({0})).shape() == Shape{0, 0});
  const Tensor x = leaf({2});
  const Tensor slope =
      jacobian([](const Tensor& x) { return x * x * x; }, x, {.create_graph = true});
  CHECK(values(grad(reshape(slope, {}), x)) == Values{12});
  CHECK_FALSE(x.has_grad());
  CHECK_THROWS_AS(jacobian(f, zeros({3}, {.dtype = Dtype::int64})), DtypeError);
}

TEST_CASE("the Hessian is the Jacobian of the gradient") {
  const auto f = [](const Tensor& x) { return sum(x * x * x) + prod(x); };
  const Tensor h = no_grad([&] { return hessian(f, vector({2, 3})); });
  CHECK(h.shape() == Shape{2, 2});
  CHECK(values(h) == Values{12, 1, 1, 18});
  CHECK(values(hessian([](const Tensor& x) { return sum(x * 2); }, vector({1, 2}))) ==
        Values{0, 0, 0, 0});
  CHECK(values(hessian([](const Tensor&) { return scalar(1); }, vector({1}))) == Values{0});
  CHECK_THROWS_WITH_AS(hessian([](const Tensor& x) { return x; }, vector({1, 2})),
                       Contains("[hessian] takes a function with one element"), ShapeError);
}

}  // namespace
}  // namespace capstan
