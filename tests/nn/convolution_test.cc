// Tests of the convolution layers: shapes, start, arithmetic against PyTorch, errors.
#include "nn/convolution.h"

#include <cmath>

#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

using doctest::Contains;

TEST_CASE("convolutions of all kinds give PyTorch's results and gradients") {
  const ConvOptions options{.stride = 2, .padding = 1, .dilation = 2, .groups = 2};
  compare_with_pytorch(Conv1d(4, 6, 3, options), "conv1d");
  compare_with_pytorch(Conv2d(4, 6, 3, options), "conv2d");
  compare_with_pytorch(Conv3d(2, 4, 3, options), "conv3d");
  compare_with_pytorch(ConvTranspose1d(4, 6, 3, options, 1), "conv_transpose1d");
  compare_with_pytorch(ConvTranspose2d(4, 6, 3, options, 1), "conv_transpose2d");
}

TEST_CASE("weights have PyTorch's shapes and start within 1/sqrt(fan in)") {
  manual_seed(1);
  const auto check = [](auto layer, const Shape& shape, double fan_in) {
    CAPTURE(layer.type_name());
    CHECK(layer.weight.shape() == shape);
    CHECK(layer.bias.value().shape() == Shape{6});
    const double bound = 1 / std::sqrt(fan_in);
    for (const Tensor& x : {Tensor(layer.weight), Tensor(*layer.bias)}) {
      CHECK(max(x).template item<float>() <= bound);
      CHECK(min(x).template item<float>() >= -bound);
    }
    CHECK(max(layer.weight).template item<float>() > 0.9 * bound);
  };
  const ConvOptions options{.groups = 2};
  check(Conv1d(8, 6, 5, options), {6, 4, 5}, 20);
  check(Conv2d(8, 6, 5, options), {6, 4, 5, 5}, 100);
  check(Conv3d(8, 6, 3, options), {6, 4, 3, 3, 3}, 108);
  // PyTorch counts the second axis, which is the outputs here.
  check(ConvTranspose1d(8, 6, 5, options), {8, 3, 5}, 15);
  check(ConvTranspose2d(8, 6, 5, options), {8, 3, 5, 5}, 75);
}

TEST_CASE("a convolution without a bias has no parameter of that name") {
  const auto count = [](auto layer) { return layer.parameters().size(); };
  const ConvOptions options{.bias = false};
  CHECK(count(Conv1d(2, 3, 3, options)) == 1);
  CHECK(count(Conv2d(2, 3, 3, options)) == 1);
  CHECK(count(Conv3d(2, 3, 3, options)) == 1);
  CHECK(count(ConvTranspose1d(2, 3, 3, options)) == 1);
  CHECK(count(ConvTranspose2d(2, 3, 3, options)) == 1);
}

TEST_CASE("convolutions say what does not fit, and name themselves") {
  Conv3d blocks(1, 1, 3);
  CHECK_THROWS_WITH_AS(blocks(ones({1, 1, 3, 3})), Contains("[conv3d] takes"), ShapeError);
  Conv1d lines(1, 2, 3);
  CHECK_THROWS_WITH_AS(lines(ones({1, 3, 8})), Contains("[conv1d] weight must be"), ShapeError);
}

}  // namespace
}  // namespace capstan::nn
