// Tests of WeightNorm: names, start, PyTorch's arithmetic, copies, and what the layer holds between
// calls.
#include "nn/weight_norm.h"

#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/convolution.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

using Names = std::vector<std::string>;

Names names_of(Module& module) {
  Names names;
  for (const auto& [name, _] : module.parameters()) names.push_back(name);
  return names;
}

TEST_CASE("layers with weight norm give PyTorch's results and gradients, under its names") {
  compare_with_pytorch(WeightNorm(Linear(3, 4)), "weight_norm_linear");
  compare_with_pytorch(WeightNorm(Conv1d(2, 3, 2), 1), "weight_norm_conv");
  compare_with_pytorch(WeightNorm(Linear(3, 4, {.bias = false}), std::nullopt),
                       "weight_norm_whole");
}

TEST_CASE("a layer starts as it was, whatever the axis, and can be had back") {
  Conv2d conv(2, 3, 3);
  const Tensor x = rand({1, 2, 4, 5}), expected = conv(x);
  for (const std::optional<int64_t> axis : std::vector<std::optional<int64_t>>{0, -1, {}}) {
    WeightNorm normed(conv, axis);
    CHECK(testing::distance(normed(x), expected) < 1e-6);
    scale_elements(normed.weight_g, 2);
    Conv2d plain = normed.plain();
    CHECK(testing::distance(plain.weight, conv.weight * 2) < 1e-6);
    CHECK(plain.weight.requires_grad());
    CHECK(names_of(plain) == Names{"weight", "bias"});
  }
  CHECK(WeightNorm(conv).weight_g.shape() == Shape{3, 1, 1, 1});
  CHECK(WeightNorm(conv, -1).weight_g.shape() == Shape{1, 1, 1, 3});
  CHECK(WeightNorm(conv, std::nullopt).weight_g.shape() == Shape{});
  CHECK_THROWS_WITH_AS(WeightNorm(conv, 4), doctest::Contains("[weight_norm] axis 4"), ShapeError);
}

TEST_CASE("inside a model it is a layer like others") {
  Sequential net{WeightNorm(Linear(3, 4)), Linear(4, 2)};
  CHECK(names_of(net) == Names{"0.weight_g", "0.weight_v", "0.bias", "1.weight", "1.bias"});
  Sequential copy = net.clone();
  const Tensor x = rand({2, 3}), before = copy(x);
  for (const auto& [_, parameter] : net.parameters()) scale_elements(parameter, 3);
  CHECK(testing::distance(copy(x), before) == 0);  // numbers of its own
  copy.to(Dtype::float64);
  CHECK(copy(cast(x, Dtype::float64)).dtype() == Dtype::float64);
  copy.to(Device::meta());
  CHECK(copy(empty({7, 3}, {.dtype = Dtype::float64, .device = Device::meta()})).shape() ==
        Shape{7, 2});
}

TEST_CASE("the weight is there while the layer runs only, so that no tape is kept") {
  WeightNorm layer(Linear(3, 4));
  CHECK_FALSE(layer.weight.defined());
  const Tensor y = layer(ones({1, 3}));
  CHECK_FALSE(layer.weight.defined());
  backward(sum(y));
  CHECK(layer.weight_g.has_grad());
  CHECK(layer.weight_v.has_grad());
}

}  // namespace
}  // namespace capstan::nn
