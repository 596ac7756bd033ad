// Tests of CustomFunction: its gradients, what it saves, and its checks.
#include "autograd/custom.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/in_place.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

Tensor leaf(const Values& values) {
  return require_grad(from_vector(values, {static_cast<int64_t>(values.size())}));
}
Values values(const Tensor& x) { return x.to_vector<double>(); }

/// a * b and exp(a).
const CustomFunction pair{
    .name = "pair",
    .forward =
        [](CustomContext& context, const Tensors& in) {
          CHECK_FALSE(grad_enabled());
          const Tensors out{in[0] * in[1], exp(in[0])};
          for (const Tensor& kept : {in[0], in[1], out[1]}) context.save(kept);
          return out;
        },
    .backward =
        [](const CustomContext& context, const Tensors& grads) {
          const Tensor a = context.saved(0), b = context.saved(1), e = context.saved(2);
          return Tensors{grads[0] * b + grads[1] * e, context.wanted(1) ? grads[0] * a : Tensor()};
        }};

TEST_CASE("several inputs and outputs, once and twice") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const auto first = [](const Tensors& in) { return pair(in)[0]; };
  const auto second = [](const Tensors& in) { return pair(in)[1]; };
  const auto both = [](const Tensors& in) {
    const Tensors out = pair(in);
    return out[0] * out[1];
  };
  for (const auto& f : std::vector<std::function<Tensor(const Tensors&)>>{first, second, both}) {
    gradcheck(f, {a, b});
    gradgradcheck(f, {a, b});
  }
  gradcheck(both, {a, detach(b)});
  CHECK_FALSE(pair({detach(a), detach(b)})[0].requires_grad());
  CHECK_FALSE(no_grad([&] { return pair({a, b}); })[0].requires_grad());
  const Tensor y = sum(both({a, b}));
  backward(y);
  CHECK_THROWS_WITH_AS(backward(y), Contains("freed"), GradientError);
}

TEST_CASE("an input may be given back, and stays a leaf") {
  const CustomFunction same{
      .name = "same",
      .forward = [](CustomContext&, const Tensors& in) { return in; },
      .backward = [](const CustomContext&, const Tensors& grads) { return Tensors{grads[0] * 7}; }};
  const Tensor x = leaf({1});
  const Tensor y = same({x})[0];
  CHECK_NOTHROW(accumulator(x));
  backward(y);
  CHECK(values(x.grad()) == Values{7});
}

TEST_CASE("what it gives and saves is checked") {
  Tensors answer;
  bool ask_too_much = false;
  const CustomFunction mine{.name = "mine",
                            .forward =
                                [](CustomContext& context, const Tensors& in) {
                                  context.save(in[0]);
                                  context.save(in[0] + 1);
                                  return Tensors{in[0] * 2};
                                },
                            .backward =
                                [&](const CustomContext& context, const Tensors& grads) {
                                  if (ask_too_much) return Tensors{context.saved(2)};
                                  if (answer.empty()) return Tensors{grads[0] * context.saved(1)};
                                  return answer;
                                }};
  const Tensor x = leaf({1, 2});
  const auto run = [&] { return values(grad(sum(mine({x})[0]), x)); };
  CHECK(run() == Values{2, 3});
  CHECK_THROWS_WITH_AS(
      grad(sum(mine({x})[0]), x, {.create_graph = true}),
      Contains("[mine] has no gradient of the gradient: saved tensor 1 is neither"), GradientError);
  answer = {ones({2})};
  CHECK_THROWS_WITH_AS(run(),
                       Contains("[mine] the gradient of input 0 must be float64 [2] on cpu:0, "
                                "got float32 [2] on cpu:0"),
                       GradientError);
  answer = {x, x};
  CHECK_THROWS_WITH_AS(run(), Contains("[mine] its backward must give a gradient for each of 1"),
                       GradientError);
  answer = {Tensor()};
  CHECK(run() == Values{0, 0});
  ask_too_much = true;
  CHECK_THROWS_WITH_AS(run(), Contains("[mine] saved 2 tensors, and has no number 2"), ValueError);
  ask_too_much = false;
  const Tensor y = sum(mine({x})[0]);
  answer.clear();
  const Tensor z = sum(pair({x, x})[0]);
  no_grad([&] { assign(x, 1); });
  CHECK_THROWS_WITH_AS(backward(z), Contains("[pair] a value of [2]"), GradientError);
}

}  // namespace
}  // namespace capstan
