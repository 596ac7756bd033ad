// Tests of how tensors are kept for backward: packing, and checkpoints, which keep none.
#include "autograd/checkpoint.h"

#include <doctest/doctest.h>

#include "autograd/dropout.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/in_place.h"
#include "autograd/matmul.h"
#include "autograd/reduce.h"
#include "autograd/saved.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

Tensor vector(const Values& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}
Tensor leaf(const Values& values) { return require_grad(vector(values)); }
Values values(const Tensor& x) { return x.to_vector<double>(); }
int64_t bytes_held() { return memory_stats(Device::cpu()).current; }

TEST_CASE("packed tensors come back where backward needs them") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  int packed = 0, unpacked = 0;
  {
    PackSaved halves([&](const Tensor& t) -> Unpack {
      CHECK_FALSE(t.requires_grad());
      ++packed;
      return [&unpacked, half = t * 0.5] {
        ++unpacked;
        return half * 2;
      };
    });
    const Tensor y = sum(exp(x * w));
    CHECK(packed == 3);  // x, w and the result of exp
    no_grad([&] { x* w; });
    CHECK(packed == 3);
    PackSaved inner([&](const Tensor& t) -> Unpack { return [t] { return t; }; });
    x* w;
    CHECK(packed == 3);
    backward(y, {.retain_graph = true});
    CHECK(unpacked == 3);
    const Tensor slope = grad(y, x, {.create_graph = true});  // w exp(x w)
    CHECK(values(grad(sum(slope), x)) == Values{9 * std::exp(3.0), 16 * std::exp(8.0)});
  }
  CHECK(values(x.grad()) == Values{3 * std::exp(3.0), 4 * std::exp(8.0)});
  x* w;
  CHECK(packed == 3);
}

TEST_CASE("what is unpacked must be what was packed") {
  const Tensor x = leaf({1, 2});
  Tensor answer;
  PackSaved other([&](const Tensor&) -> Unpack { return [&] { return answer; }; });
  const Tensor y = sum(square(x));
  const auto run = [&] { backward(y, {.retain_graph = true}); };
  CHECK_THROWS_WITH_AS(run(),
                       Contains("[square] float64 [2] on cpu:0 was packed for backward, and "
                                "unpacked as nothing"),
                       GradientError);
  answer = ones({2});
  CHECK_THROWS_WITH_AS(run(), Contains("unpacked as float32 [2]"), GradientError);
  answer = vector({1, 2, 3});
  CHECK_THROWS_AS(run(), GradientError);
  answer = vector({5, 6});
  CHECK_NOTHROW(run());
  CHECK(values(x.grad()) == Values{10, 12});
}

/// Three layers with dropout; counts its runs.
struct Part {
  Tensor a = require_grad(full({8, 8}, 0.1, {.dtype = Dtype::float64}));
  Tensor b = require_grad(full({8, 8}, -0.2, {.dtype = Dtype::float64}));
  int runs = 0;

  Tensor operator()(const Tensor& x) {
    ++runs;
    return matmul(dropout(sigmoid(matmul(exp(matmul(x, a)), b)), 0.3), a);
  }
};

TEST_CASE("a checkpoint changes no gradient, and runs twice") {
  const Tensor x = require_grad(full({4, 8}, 0.3, {.dtype = Dtype::float64}));
  Part plain, part;
  manual_seed(5);
  backward(sum(square(plain(x))));
  const Values x_grad = values(x.grad());
  zero_grad(x);

  manual_seed(5);
  int deliveries = 0;
  size_t leaves = 0;
  const HookHandle hook = on_accumulation(part.a, [&](const Tensor&) { ++deliveries; });
  const HookHandle start =
      on_backward_start([&](const auto& pass) { leaves = pass.leaves.size(); });
  const Tensor y = sum(square(checkpoint([&](const Tensor& x) { return part(x); }, x)));
  const Generator after = default_generator();
  CHECK(part.runs == 1);
  backward(y);
  CHECK(part.runs == 2);
  CHECK(default_generator() == after);  // as if it had run once
  CHECK(leaves == 3);
  CHECK(deliveries == 1);  // once, though it is used twice
  CHECK(values(x.grad()) == x_grad);
  CHECK(values(part.a.grad()) == values(plain.a.grad()));
  CHECK(values(part.b.grad()) == values(plain.b.grad()));
}

TEST_CASE("a checkpoint keeps its input only, until backward, and frees all after it") {
  const Tensor x = require_grad(full({64, 64}, 0.5, {.dtype = Dtype::float64}));
  const int64_t one = x.bytes(), before = bytes_held();
  const auto deep = [](Tensor x) {
    for (int i = 0; i < 10; ++i) x = exp(x * 0.01);
    return x;
  };
  {
    const Tensor y = deep(x);
    CHECK(bytes_held() - before >= 10 * one);
  }
  {
    const Tensor y = sum(checkpoint(std::function<Tensor(const Tensor&)>(deep), x));
    CHECK(bytes_held() - before < one);
    backward(y);
    CHECK(bytes_held() - before < 2 * one);  // the gradient
  }
  zero_grad(x);
  CHECK(bytes_held() == before);
}

TEST_CASE("checkpoints nest, take several inputs, and serve gradients of gradients") {
  const Tensor x = leaf({0.5, 1}), w = leaf({2, 3});
  int inner_runs = 0;
  const auto inner = [&](const Tensor& x) {
    ++inner_runs;
    return exp(x) * x;
  };
  const auto outer = [&](const Tensors& in) { return checkpoint(inner, in[0] * in[1]) * in[1]; };
  const auto loss = [&](bool apart) {
    if (apart) return sum(checkpoint(outer, Tensors{x, w}));
    const Tensor product = x * w;
    return sum(exp(product) * product * w);
  };
  const auto first = grad({loss(false)}, {x, w}), again = grad({loss(true)}, {x, w});
  for (int i : {0, 1}) CHECK(values(first[i]) == values(again[i]));
  CHECK(inner_runs == 3);  // forward, in the outer one's second run, and its own second run

  const auto second = [&](bool apart) {
    const Tensor slope = grad(loss(apart), x, {.create_graph = true});
    return values(grad(sum(square(slope)), w));
  };
  CHECK(second(true) == second(false));
  CHECK_FALSE(no_grad([&] { return checkpoint(inner, x); }).requires_grad());
}

TEST_CASE("a function that does something else, or on changed values, is refused") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  int runs = 0;
  SUBCASE("more operations") {
    const Tensor y = checkpoint([&](const Tensor& x) { return runs++ ? exp(exp(x)) : exp(x); }, x);
    CHECK_THROWS_WITH_AS(backward(sum(y)), Contains("it kept 1 tensors for backward, and then 2"),
                         GradientError);
  }
  SUBCASE("other shapes") {
    const Tensor y = checkpoint(
        [&](const Tensor& x) {
          return sum(exp(runs++ ? reshape(x, {1, 2}) : x));
        },
        x);
    CHECK_THROWS_WITH_AS(backward(y), Contains("tensor 0 that it keeps was float64 [2]"),
                         GradientError);
  }
  SUBCASE("a weight that was changed in place") {
    const Tensor y = checkpoint([&](const Tensor& x) { return x * w; }, x);
    no_grad([&] { assign(w, 1); });
    CHECK_THROWS_WITH_AS(backward(sum(y)), Contains("changed in place"), GradientError);
  }
  SUBCASE("an input that was changed in place") {
    const Tensor y = checkpoint([&](const Tensor& x) { return x * w; }, x);
    no_grad([&] { assign(x, 1); });
    CHECK_THROWS_WITH_AS(backward(sum(y)), Contains("changed in place"), GradientError);
  }
  SUBCASE("an exception, after which the random state is as before") {
    const Tensor y = checkpoint(
        [&](const Tensor& x) {
          if (runs++) throw IoError("no");
          return dropout(exp(x), 0.5);
        },
        x);
    const Generator before = default_generator();
    CHECK_THROWS_AS(backward(sum(y)), IoError);
    CHECK(default_generator() == before);
  }
}

}  // namespace
}  // namespace capstan
