// Tests of layers: their start, their arithmetic in whole networks against PyTorch, dropout.
#include "nn/layers.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "core/error.h"
#include "nn/convolution.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/pooling.h"
#include "nn/sequential.h"
#include "nn/state.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

using doctest::Contains;
using testing::distance;

/// Forward, loss and all gradients from the same weights as in make_golden.py.
void compare_with_pytorch(Sequential net, const std::string& name, Dtype dtype, double tolerance) {
  CAPTURE(name);
  CAPTURE(to_string(dtype));
  const auto golden = under(testing::load_golden("models"), name + "/");
  net.to(Dtype::float64);
  load_state_dict(net, under(golden, "weights/"));
  net.to(dtype);
  const Tensor logits = net(cast(golden.at("images"), dtype));
  const Tensor loss = cross_entropy(logits, golden.at("targets"));
  backward(loss);
  CHECK(distance(logits, golden.at("logits")) <= tolerance);
  CHECK(distance(loss, golden.at("loss")) <= tolerance);
  for (const auto& [parameter_name, parameter] : net.parameters()) {
    CAPTURE(parameter_name);
    CHECK(distance(parameter.grad(), golden.at("grads/" + parameter_name)) <= tolerance);
  }
}

TEST_CASE("small networks give PyTorch's loss and gradients") {
  const Sequential mlp{Flatten{}, Linear(12, 5), ReLU{}, Linear(5, 4), ReLU{}, Linear(4, 3)};
  const Sequential lenet{
      Conv2d(1, 2, 3), ReLU{},       MaxPool2d(2), Conv2d(2, 3, 3, {.stride = 2, .padding = 1}),
      ReLU{},          MaxPool2d(2), Flatten{},    Linear(3, 4),
      ReLU{},          Linear(4, 3)};
  for (Dtype dtype : {Dtype::float64, Dtype::float32}) {
    const double tolerance = dtype == Dtype::float64 ? 1e-13 : 2e-6;
    compare_with_pytorch(mlp.clone(), "mlp", dtype, tolerance);
    compare_with_pytorch(lenet.clone(), "lenet", dtype, tolerance);
  }
}

TEST_CASE("weights start uniform within 1/sqrt(fan in), and differ by the seed") {
  const auto check = [](const Tensor& x, double bound) {
    const auto numbers = x.to_vector<double>();
    double most = 0, sum = 0, squares = 0;
    for (double v : numbers) {
      most = std::max(most, std::abs(v));
      sum += v;
      squares += v * v;
    }
    const double count = static_cast<double>(numbers.size());
    CHECK(most <= bound);
    CHECK(most > 0.95 * bound);
    CHECK(std::abs(sum / count) < 4 * bound / std::sqrt(3 * count));  // four standard errors
    CHECK(squares / count == doctest::Approx(bound * bound / 3).epsilon(0.1));
  };
  manual_seed(3);
  const Linear linear(50, 40);
  check(linear.weight, 1 / std::sqrt(50.0));
  CHECK(linear.weight.shape() == Shape{40, 50});
  const Conv2d conv(10, 30, 3);
  check(conv.weight, 1 / std::sqrt(90.0));
  CHECK(conv.weight.shape() == Shape{30, 10, 3, 3});
  check(Linear(1000, 500).bias.value(), 1 / std::sqrt(1000.0));
  check(Conv2d(10, 500, 3).bias.value(), 1 / std::sqrt(90.0));

  const auto first = [](uint64_t seed) {
    manual_seed(seed);
    return Linear(3, 3).weight.to_vector<float>();
  };
  CHECK(first(1) == first(1));
  CHECK(first(1) != first(2));
  CHECK_THROWS_WITH_AS(fan_in_uniform({2, 0}, 0), "[init] a layer needs at least one input, got 0",
                       ValueError);
  CHECK_THROWS_AS(Linear(0, 3), ValueError);
  CHECK_THROWS_AS(Linear(3, -1), ShapeError);
}

TEST_CASE("a layer without a bias has no parameter of that name") {
  Linear linear(3, 2, {.bias = false});
  Conv2d conv(1, 2, 3, {.bias = false});
  CHECK(linear.parameters().size() == 1);
  CHECK(conv.parameters().size() == 1);
  fill_elements(linear.weight, 0);
  fill_elements(conv.weight, 0);
  CHECK(linear(ones({1, 3})).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(conv(ones({1, 1, 3, 3})).to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("layers say what does not fit") {
  CHECK_THROWS_WITH_AS(Linear(0, 3), "[init] a layer needs at least one input, got 0", ValueError);
  Linear linear(3, 2);
  CHECK_THROWS_WITH_AS(linear(ones({2, 4})), Contains("[linear] input [2, 4] must end in the 3"),
                       ShapeError);
  Conv2d conv(1, 2, 3);
  CHECK_THROWS_WITH_AS(conv(ones({1, 3, 8, 8})), Contains("[conv2d] weight must be [out, 3, 3, 3]"),
                       ShapeError);
  CHECK_THROWS_AS(Flatten{}(ones({4})), ShapeError);
}

TEST_CASE("dropout drops p of the elements, keeps the mean, and backward drops the same") {
  manual_seed(5);
  Dropout drop(0.3);
  const Tensor x = require_grad(ones({100, 100}));
  const Tensor y = drop(x);
  backward(sum(y));
  const auto out = y.to_vector<float>();
  CHECK(x.grad().to_vector<float>() == out);  // x is 1, so the mask itself
  int dropped = 0;
  for (float v : out) {
    dropped += v == 0;
    CHECK((v == 0 || v == 1 / 0.7f));
  }
  CHECK(std::abs(dropped - 3000) < 4 * std::sqrt(10000 * 0.3 * 0.7));
  CHECK(drop(x).to_vector<float>() != out);  // the next call draws anew
  manual_seed(5);
  CHECK(drop(x).to_vector<float>() == out);
}

TEST_CASE("dropout is the identity in evaluation and for p = 0, and draws nothing then") {
  Dropout drop(0.5), none(0);
  drop.eval();
  const Tensor x = ones({10});
  const uint64_t before = default_generator().offset();
  CHECK(drop(x).same(x));
  CHECK(none(x).same(x));
  CHECK(default_generator().offset() == before);
}

TEST_CASE("dropout of a part drops as of the whole, in copies too, and backward alike") {
  Dropout drop(0.3);
  manual_seed(4);
  const Tensor whole = drop(ones({6, 40}));
  const uint64_t drawn = default_generator().offset();
  const auto rows = std::make_shared<AxisParts>(AxisParts{{0, 1, 3}});
  drop.parts = {rows, std::make_shared<AxisParts>(AxisParts{{1, 0, 4, 2, 3}})};
  Dropout copy = drop.clone();
  const auto part = [&] {
    return cat({slice(slice(whole, 0, 2, 4), 1, 0, 10), slice(slice(whole, 0, 2, 4), 1, 30, 40)}, 1)
        .to_vector<float>();
  };
  for (Dropout* layer : {&drop, &copy}) {
    manual_seed(4);
    const Tensor x = require_grad(ones({2, 20}));
    const Tensor y = (*layer)(x);
    CHECK(y.to_vector<float>() == part());
    CHECK(default_generator().offset() == drawn);
    backward(sum(y));
    CHECK(x.grad().to_vector<float>() == part());
  }
  *rows = {};  // the strategy says that there are all rows now
  manual_seed(4);
  CHECK(copy(ones({6, 20})).to_vector<float>() ==
        cat({slice(whole, 1, 0, 10), slice(whole, 1, 30, 40)}, 1).to_vector<float>());
}

TEST_CASE("dropout refuses probabilities outside [0, 1) when it is made") {
  CHECK_THROWS_WITH_AS(Dropout(1.0), Contains("[dropout] p must be in [0, 1), got 1"), ValueError);
  CHECK_THROWS_AS(Dropout(-0.1), ValueError);
  CHECK_THROWS_AS(Dropout(std::nan("")), ValueError);
}

TEST_CASE("dropout2d drops whole channels, in training only") {
  manual_seed(6);
  Dropout2d drop(0.25);
  const Tensor y = drop(ones({40, 10, 2, 3}));
  const auto values = y.to_vector<float>();
  int dropped = 0;
  for (size_t channel = 0; channel < 400; ++channel) {
    dropped += values[6 * channel] == 0;
    for (int i = 0; i < 6; ++i) CHECK(values[6 * channel + i] == values[6 * channel]);
  }
  CHECK(std::abs(dropped - 100) < 4 * std::sqrt(400 * 0.25 * 0.75));
  drop.eval();
  const Tensor x = ones({2, 2});
  CHECK(drop(x).same(x));
  CHECK_THROWS_WITH_AS(drop(ones({2})), "[dropout2d] takes [n, channels, ...], got [2]",
                       ShapeError);
  CHECK_THROWS_AS(Dropout2d(1), ValueError);
}

TEST_CASE("upsampling goes by a factor or to a size") {
  const Tensor x = from_vector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  CHECK(Upsample(2)(x).shape() == Shape{1, 1, 4, 4});
  CHECK(Upsample(1.5)(x).shape() == Shape{1, 1, 3, 3});
  CHECK(Upsample(1, 3)(x).to_vector<float>() == std::vector<float>{1, 1, 2});
  CHECK(Upsample(2, 3, Interpolation::bilinear_aligned)(x).to_vector<float>() ==
        std::vector<float>{1, 1.5, 2, 3, 3.5, 4});
  CHECK(Upsample(2, Interpolation::bilinear)(x).to_vector<float>()[1] == 1.25f);
  CHECK_THROWS_WITH_AS(Upsample(0.0)(x), Contains("[upsample] scale must be above 0"), ValueError);
  CHECK_THROWS_AS(Upsample(0, 3)(x), ValueError);
}

TEST_CASE("a bilinear layer starts uniform within 1/sqrt(left), and gives PyTorch's results") {
  manual_seed(2);
  const Bilinear pairs(50, 20, 4);
  CHECK(pairs.weight.shape() == Shape{4, 50, 20});
  const double bound = 1 / std::sqrt(50.0);
  CHECK(max(pairs.weight).item<float>() <= bound);
  CHECK(max(pairs.weight).item<float>() > 0.95 * bound);
  CHECK(max(pairs.bias.value()).item<float>() <= bound);
  CHECK(Bilinear(2, 3, 4, {.bias = false}).parameters().size() == 1);
  CHECK_THROWS_AS(Bilinear(0, 3, 4), ValueError);
  compare_with_pytorch(Bilinear(3, 2, 4), "bilinear",
                       [](auto& net, const auto& x) { return net(x[0], x[1]); });
}

TEST_CASE("activations are there as layers") {
  const Tensor x = from_vector<float>({-3, -0.5, 0.5, 7}, {4});
  const auto same = [&](auto layer, const Tensor& expected) {
    CAPTURE(layer.type_name());
    CHECK(layer(x).template to_vector<float>() == expected.to_vector<float>());
  };
  same(ReLU6{}, relu6(x));
  same(LeakyReLU(0.2), leaky_relu(x, 0.2));
  same(ELU(0.5), elu(x, 0.5));
  same(GELU{}, gelu(x));
  same(GELUTanh{}, gelu_tanh(x));
  same(SiLU{}, silu(x));
  same(Hardtanh(-2, 3), hardtanh(x, -2, 3));
  same(Softplus(2), softplus(x, 2));
  same(LogSigmoid{}, log_sigmoid(x));
  same(Softmax(0), softmax(x, 0));
  same(LogSoftmax{}, log_softmax(x));
  same(SELU{}, selu(x));
  same(CELU(0.5), celu(x, 0.5));
  same(Mish{}, mish(x));
  same(Hardsigmoid{}, hardsigmoid(x));
  same(Hardswish{}, hardswish(x));
  same(Softsign{}, softsign(x));
  same(GLU{}, glu(x));
  CHECK(GLU(0)(ones({4, 3})).shape() == Shape{2, 3});
}

TEST_CASE("the slopes of a PReLU start at a quarter, are learned, and give PyTorch's results") {
  PReLU one, three(3, 0.5);
  CHECK(one.weight.to_vector<float>() == std::vector<float>{0.25f});
  CHECK(three.weight.to_vector<float>() == std::vector<float>{0.5f, 0.5f, 0.5f});
  CHECK(three.parameters().at(0).first == "weight");
  compare_with_pytorch(three, "prelu");
  CHECK_THROWS_WITH_AS(PReLU(0), "[prelu] channels must be at least 1, got 0", ValueError);
  CHECK_THROWS_AS(PReLU(-1), ValueError);
  CHECK_THROWS_AS(three(ones({2, 4})), ShapeError);
}

TEST_CASE("a loss of NaN logits is NaN, and ignored samples count nothing") {
  const Tensor logits = require_grad(from_vector<double>({2, 1, 0, 0, 1, 2, 1, 1, 1}, {3, 3}));
  const Tensor targets = from_vector<int64_t>({0, -100, 2}, {3});
  const Tensor loss = cross_entropy(logits, targets);
  CHECK(std::abs(loss.item<double>() - 0.7531091266) < 1e-10);
  backward(loss);
  const auto slopes = logits.grad().to_vector<double>();
  for (int i = 3; i < 6; ++i) CHECK(slopes[i] == 0);
  CHECK(std::isnan(cross_entropy(full({3, 3}, NAN), targets).item<float>()));
}

}  // namespace
}  // namespace capstan::nn
