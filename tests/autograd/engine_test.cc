// Tests of backward(): order, completeness, the hooks around it, and its errors.
#include "autograd/engine.h"

#include <doctest/doctest.h>

#include <thread>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Values = std::vector<double>;
using Names = std::vector<std::string>;

Tensor leaf(double value) { return require_grad(scalar(value, {.dtype = Dtype::float64})); }
double grad_of(const Tensor& x) { return x.grad().item<double>(); }

/// Notes the order in which gradients come.
class Log {
 public:
  void leaf(const std::string& name, const Tensor& x) {
    handles_.push_back(on_accumulation(x, [this, name](const Tensor&) { names.push_back(name); }));
  }
  void result(const std::string& name, const Tensor& x) {
    handles_.push_back(on_gradient(x, [this, name](const Tensor&) {
      names.push_back(name);
      return Tensor();
    }));
  }
  Names names;

 private:
  std::vector<HookHandle> handles_;
};

TEST_CASE("gradients come newest first, whatever the order of arguments") {
  for (bool weight_first : {false, true}) {
    CAPTURE(weight_first);
    Log log;
    const Tensor w[] = {leaf(2), leaf(3), leaf(4)};
    Tensor x = leaf(1);
    log.leaf("x", x);
    for (int i = 0; i < 3; ++i) {
      x = weight_first ? w[i] * x : x * w[i];
      log.leaf("w" + std::to_string(i), w[i]);
      log.result("h" + std::to_string(i), x);
    }
    backward(x);
    const std::vector<std::string> before_x = {"h2", "w2", "h1", "w1", "h0"};
    REQUIRE(log.names.size() == 7);
    CHECK(std::equal(before_x.begin(), before_x.end(), log.names.begin()));
  }
}

TEST_CASE("a newer branch is finished before an older one is begun") {
  for (bool swap : {false, true}) {
    Log log;
    const Tensor old_w = leaf(2), new_w = leaf(3), x = leaf(1);
    const Tensor older = exp(x * old_w), newer = exp(x * new_w);
    log.leaf("old", old_w);
    log.leaf("new", new_w);
    backward(swap ? newer + older : older + newer);
    CHECK(log.names == Names{"new", "old"});
  }
}

TEST_CASE("a leaf that is used often gets one hook call, with the whole gradient") {
  const Tensor w = leaf(3);
  std::vector<double> seen;
  const HookHandle handle =
      on_accumulation(w, [&](const Tensor& grad) { seen.push_back(grad.item<double>()); });
  const Tensor y = w * w + exp(w * 0) * w + sum(expand(w, {5}));
  backward(y);
  CHECK(seen == Values{2 * 3 + 1 + 5});
  backward(w * w);
  CHECK(seen == Values{12, 18});  // what was there before is in it
}

TEST_CASE("a result that is used often gets one hook call, with the whole gradient") {
  const Tensor x = leaf(2), y = x * 3;
  std::vector<double> seen;
  const HookHandle handle = on_gradient(y, [&](const Tensor& grad) {
    seen.push_back(grad.item<double>());
    return Tensor();
  });
  backward(y * y + y);
  CHECK(seen == Values{13});
  CHECK(grad_of(x) == 39);
}

TEST_CASE("only what the root depends on gets a gradient, and the start hook knows it") {
  const Tensor a = leaf(1), b = leaf(2), unused = leaf(3);
  const Tensor aside = unused * a;
  std::vector<Accumulator*> reached;
  int ended = 0;
  const HookHandle start = on_backward_start([&](const BackwardPass& pass) {
    CHECK_FALSE(a.has_grad());  // before the first node
    reached.assign(pass.leaves.begin(), pass.leaves.end());
  });
  const HookHandle end = on_backward_end([&] {
    CHECK(a.has_grad());
    ++ended;
  });
  backward(a * b + a);
  std::sort(reached.begin(), reached.end());
  std::vector<Accumulator*> expected = {&accumulator(a), &accumulator(b)};
  std::sort(expected.begin(), expected.end());
  CHECK(reached == expected);
  CHECK(ended == 1);
  CHECK_FALSE(unused.has_grad());
}

TEST_CASE("a leaf may be the root") {
  const Tensor x = leaf(5);
  size_t leaves = 0;
  const HookHandle start =
      on_backward_start([&](const auto& pass) { leaves = pass.leaves.size(); });
  backward(x);
  CHECK(grad_of(x) == 1);
  CHECK(leaves == 1);
}

TEST_CASE("the root needs a seed unless it has one element") {
  const Tensor x = require_grad(ones({2, 1}));
  CHECK_THROWS_WITH_AS(backward(x * 2), Contains("a root of [2, 1] has more than one element"),
                       ShapeError);
  const auto from = [&](const Tensor& seed) { backward(x * 2, {.seed = seed}); };
  CHECK_THROWS_WITH_AS(from(ones({2})), Contains("the seed must be like the root, float32 [2, 1]"),
                       GradientError);
  CHECK_THROWS_AS(from(ones({2, 1}, {.dtype = Dtype::float64})), GradientError);
  CHECK_THROWS_AS(from(ones({2, 1}, {.device = Device::meta()})), GradientError);
  CHECK_THROWS_AS(backward(require_grad(ones({0}))), ShapeError);
  CHECK_THROWS_WITH_AS(backward(ones({1})), Contains("[backward] the tensor of [1] does not"),
                       GradientError);
  CHECK_FALSE(x.has_grad());
  from(full({2, 1}, 3));
  CHECK(x.grad().to_vector<double>() == Values{6, 6});
  backward(reshape(sum(x), {1, 1}));  // one element, however many axes
  CHECK(x.grad().to_vector<double>() == Values{7, 7});
}

TEST_CASE("a tape serves once, or as often as retain_graph says") {
  const Tensor x = leaf(3), y = x * x, z = y * y;
  backward(z, {.retain_graph = true});
  backward(z);
  CHECK(grad_of(x) == 2 * 4 * 27);
  CHECK_THROWS_WITH_AS(backward(z), Contains("[multiply] what it saved was freed"), GradientError);
  CHECK_THROWS_WITH_AS(backward(y * 2), Contains("retain_graph"), GradientError);
}

TEST_CASE("a tape of a million operations needs no deep stack, neither to run nor to go") {
  const Tensor x = leaf(1), zero = scalar(0, {.dtype = Dtype::float64});
  const auto chain = [&] {
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = y + zero;
    return y;
  };
  backward(chain());
  CHECK(grad_of(x) == 1);
  const int64_t before = memory_stats(Device::cpu()).current;
  chain();  // dropped without a backward pass
  CHECK(memory_stats(Device::cpu()).current == before);
}

TEST_CASE("each thread has a tape and hooks of its own") {
  int started_here = 0;
  const HookHandle start = on_backward_start([&](const auto&) { ++started_here; });
  NoGrad off;  // of this thread only
  std::vector<double> results(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&results, t] {
      const Tensor x = leaf(t);
      for (int i = 0; i < 200; ++i) {
        zero_grad(x);
        backward(x * x * x + exp(x * 0));
      }
      results[t] = grad_of(x);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(results == Values{0, 3, 12, 27});
  CHECK(started_here == 0);
}

TEST_CASE("an exception leaves the thread ready for the next pass") {
  const Tensor x = leaf(2);
  int ended = 0;
  const HookHandle end = on_backward_end([&] { ++ended; });
  {
    const HookHandle bad = on_accumulation(x, [](const Tensor&) { throw IoError("no"); });
    CHECK_THROWS_AS(backward(x * x), IoError);
  }
  CHECK(grad_enabled());
  CHECK(ended == 0);
  zero_grad(x);
  backward(x * x);
  CHECK(grad_of(x) == 4);
  CHECK(ended == 1);
}

TEST_CASE("a hook may run a backward pass of its own") {
  const Tensor x = leaf(2), other = leaf(5);
  const HookHandle handle = on_accumulation(x, [&](const Tensor&) { CHECK_FALSE(grad_enabled()); });
  const Tensor inner = other * other;
  const HookHandle nested = on_gradient(x, [&](const Tensor&) {
    backward(inner);
    return Tensor();
  });
  backward(x * x);
  CHECK(grad_of(x) == 4);
  CHECK(grad_of(other) == 10);
}

}  // namespace
}  // namespace capstan
