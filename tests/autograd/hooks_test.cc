// Tests of hooks: lists, handles, and what hooks on gradients may do.
#include "autograd/hooks.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;

Tensor leaf(double value) { return require_grad(scalar(value, {.dtype = Dtype::float64})); }
double grad_of(const Tensor& x) { return x.grad().item<double>(); }

TEST_CASE("hooks run in the order in which they were added, until their handles go") {
  HookList<void(int)> list;
  std::vector<int> calls;
  const auto run = [&] {
    calls.clear();
    list.for_each([](const auto& hook) { hook(1); });
    return calls;
  };
  CHECK(list.empty());
  CHECK(run().empty());
  HookHandle first = list.add([&](int x) { calls.push_back(10 + x); });
  {
    const HookHandle second = list.add([&](int x) { calls.push_back(20 + x); });
    CHECK(run() == std::vector{11, 21});
  }
  CHECK(run() == std::vector{11});

  HookHandle moved = std::move(first);
  first.remove();  // empty now
  CHECK(run() == std::vector{11});
  moved = list.add([&](int x) { calls.push_back(30 + x); });  // the one held before is removed
  CHECK(run() == std::vector{31});
  HookHandle other = list.add([&](int x) { calls.push_back(40 + x); });
  moved = std::move(other);
  CHECK(run() == std::vector{41});
  moved.remove();
  moved.remove();
  CHECK(list.empty());
}

TEST_CASE("hooks may change the list while it runs") {
  HookList<void()> list;
  int once = 0, always = 0, added = 0;
  HookHandle self, later;
  self = list.add([&] {
    ++once;
    self.remove();
  });
  const HookHandle second = list.add([&] {
    ++always;
    if (always == 1) later = list.add([&] { ++added; });
  });
  for (int i = 0; i < 3; ++i) list.for_each([](const auto& hook) { hook(); });
  CHECK(once == 1);
  CHECK(always == 3);
  CHECK(added == 2);  // not in the round in which it was added
}

TEST_CASE("a handle may outlive the list") {
  HookHandle handle;
  {
    HookList<void()> list;
    handle = list.add([] {});
  }
  handle.remove();
  const HookHandle of_dropped_tape =
      on_gradient(leaf(1) * 2, [](const Tensor&) { return Tensor(); });
}

TEST_CASE("every kind of hook is removed by its handle") {
  const Tensor x = leaf(2);
  int calls = 0;
  std::vector<HookHandle> handles;
  handles.push_back(on_accumulation(x, [&](const Tensor&) { ++calls; }));
  handles.push_back(on_backward_start([&](const BackwardPass&) { ++calls; }));
  handles.push_back(on_backward_end([&] { ++calls; }));
  handles.push_back(on_gradient(x, [&](const Tensor&) {
    ++calls;
    return Tensor();
  }));
  backward(x * x);
  CHECK(calls == 4);
  handles.clear();
  backward(x * x);
  CHECK(calls == 4);
}

TEST_CASE("every kind of hook may remove itself") {
  const Tensor x = leaf(2);
  int calls = 0;
  HookHandle on_leaf, on_result, start, end;
  on_leaf = on_accumulation(x, [&](const Tensor&) { ++calls, on_leaf.remove(); });
  start = on_backward_start([&](const BackwardPass&) { ++calls, start.remove(); });
  end = on_backward_end([&] { ++calls, end.remove(); });
  on_result = on_gradient(x, [&](const Tensor&) {
    ++calls, on_result.remove();
    return Tensor();
  });
  for (int i = 0; i < 2; ++i) backward(x * x);
  CHECK(calls == 4);
}

TEST_CASE("a gradient hook may replace the gradient, of a result and of a leaf") {
  const Tensor x = leaf(2), y = x * 3;
  const HookHandle first = on_gradient(y, [](const Tensor& grad) { return grad * 10; });
  const HookHandle second = on_gradient(y, [](const Tensor& grad) { return grad + 1; });
  const HookHandle third = on_gradient(x, [](const Tensor& grad) { return grad * 2; });
  backward(y);
  CHECK(grad_of(x) == (1 * 10 + 1) * 3 * 2);
}

TEST_CASE("a replaced gradient must be like the gradient") {
  const Tensor x = leaf(2), y = x * 3;
  Tensor answer;
  const HookHandle handle = on_gradient(y, [&](const Tensor&) { return answer; });
  for (const Tensor& wrong : {ones({1}, {.dtype = Dtype::float64}), ones({}),
                              ones({}, {Dtype::float64, Device::meta()})}) {
    answer = wrong;
    CHECK_THROWS_WITH_AS(backward(y, {.retain_graph = true}),
                         Contains("[multiply] a gradient hook must keep float64 [] on cpu:0"),
                         GradientError);
  }
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("hooks need a tensor that will get a gradient") {
  const Tensor off = ones({2}), result = leaf(1) * 2;
  CHECK_THROWS_WITH_AS(on_gradient(off, [](const Tensor&) { return Tensor(); }),
                       Contains("[on_gradient] the tensor of [2] is off the tape"), GradientError);
  CHECK_THROWS_AS(on_accumulation(off, [](const Tensor&) {}), GradientError);
  CHECK_THROWS_AS(on_accumulation(result, [](const Tensor&) {}), GradientError);
}

}  // namespace
}  // namespace capstan
