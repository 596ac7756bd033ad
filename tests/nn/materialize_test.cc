// What a module on meta becomes, and what stays as it was.
#include "nn/materialize.h"

#include <doctest/doctest.h>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/batch_norm.h"
#include "nn/linear.h"

namespace capstan::nn {
namespace {

struct Net : Module {
  Linear a{3, 4}, b{3, 4};
  BatchNorm1d norm{4};
  CAPSTAN_MODULE(Net, a, b, norm)
  Net() {
    tie(a.weight, b.weight);
    require_grad(*a.bias, false);
  }
  Tensor forward(const Tensor& x) { return norm(a(x)); }
};

std::vector<std::vector<double>> numbers(Net& net) {
  std::vector<std::vector<double>> all;
  for (const auto& [_, parameter] : net.parameters()) all.push_back(parameter.to_vector<double>());
  for (const auto& [_, buffer] : net.buffers()) all.push_back(buffer.to_vector<double>());
  return all;
}

TEST_CASE("numbers, ties and what is trained are those of a model that was made at once") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    manual_seed(3);
    Net expected;
    expected.to(dtype);
    manual_seed(3);
    Recipe recipe;
    Net net = recipe.record([&] {
      Net made;
      made.to(dtype);
      return made;
    });
    const Tensor handle = net.a.weight;
    materialize(net, recipe, Device::cpu(2));
    CHECK(numbers(net) == numbers(expected));
    CHECK(handle.device() == Device::cpu(2));
    CHECK(net.a.weight.same(net.b.weight));
    CHECK(net.a.weight.requires_grad());
    CHECK(!net.a.bias->requires_grad());
    for (const auto& [_, buffer] : net.buffers()) CHECK(buffer.device() == Device::cpu(2));
  }
}

TEST_CASE("hooks on gradients stay, and what a strategy said of a parameter") {
  Recipe recipe;
  Linear layer = recipe.record([] { return Linear(3, 4); });
  int before = 0, after = 0;
  const HookHandle whole = on_gradient(layer.weight, [&](const Tensor& grad) {
    ++before;
    return grad;
  });
  HookHandle gathered = on_accumulation(layer.weight, [&](const Tensor&) { ++after; });
  accumulator(layer.weight).part_of_whole = true;
  materialize(layer, recipe);
  CHECK(accumulator(layer.weight).part_of_whole);
  CHECK(!accumulator(*layer.bias).part_of_whole);
  backward(sum(layer(ones({2, 3}))));
  CHECK(before == 1);
  CHECK(after == 1);
  gathered.remove();
  backward(sum(layer(ones({2, 3}))));
  CHECK(before == 2);
  CHECK(after == 1);
}

TEST_CASE("what has numbers is left alone, what was not recorded cannot be made") {
  const Recipe recipe;
  Linear layer(3, 4);
  const void* const place = layer.weight.address();
  materialize(layer, recipe);
  CHECK(layer.weight.address() == place);
  layer.to(Device::meta());
  CHECK_THROWS_WITH_AS(materialize(layer, recipe), doctest::Contains("was not made"), ValueError);
}

}  // namespace
}  // namespace capstan::nn
