// The operations of whole models, forward and backward, against sums written by hand.
#include "core/costs.h"

#include <doctest/doctest.h>

#include "autograd/engine.h"
#include "autograd/softmax.h"
#include "models/lenet.h"
#include "models/mlp.h"

using namespace capstan;
using namespace capstan::models;

namespace {

/// A training step of `model` on meta, without the optimizer.
template <class Model>
void step(Model& model, int64_t n) {
  model.to(Device::meta());
  const Tensor images = empty({n, 1, 28, 28}, {.device = Device::meta()});
  const Tensor labels = empty({n}, {Dtype::int64, Device::meta()});
  backward(cross_entropy(model(images), labels));
}

/// The mean cross-entropy of n rows: 4 for each logit, their sum and its division; backward a
/// division of the seed, and 4 for each logit.
int64_t loss_flops(int64_t n, int64_t classes) { return 2 * 4 * n * classes + n + 2; }

/// linear() of n rows: product and bias; backward the weight's product, the bias's sum, and that of
/// the input, if wanted.
int64_t linear_flops(int64_t n, int64_t in, int64_t out, bool input_wanted) {
  const int64_t product = 2 * n * in * out;
  return product + n * out + product + n * out + (input_wanted ? product : 0);
}

/// relu() forward and backward.
int64_t relu_flops(int64_t elements) { return 2 * elements; }

}  // namespace

TEST_CASE("a step of the MLP") {
  const int64_t n = 3;
  Mlp model;
  CountCosts costs;
  step(model, n);
  CHECK(costs.flops() == linear_flops(n, 784, 512, false) + relu_flops(n * 512) +
                             linear_flops(n, 512, 512, true) + relu_flops(n * 512) +
                             linear_flops(n, 512, 10, true) + loss_flops(n, 10));
  // Each product reads two matrices and writes the third.
  const auto product_bytes = [](int64_t n, int64_t in, int64_t out) {
    return 4 * (n * in + in * out + n * out);
  };
  const Cost products = costs.by_kernel().at("matmul");
  CHECK(products.calls == 8);
  CHECK(products.bytes_read + products.bytes_written == 2 * product_bytes(n, 784, 512) +
                                                            3 * product_bytes(n, 512, 512) +
                                                            3 * product_bytes(n, 512, 10));
}

TEST_CASE("a step of LeNet") {
  const int64_t n = 2;
  LeNet model;
  CountCosts costs;
  step(model, n);
  // conv2d: the products and the bias; backward those of the weight, the bias's sum, and those of
  // the input, if wanted.
  const auto conv_flops = [&](int64_t in, int64_t out, int64_t size, bool input_wanted) {
    const int64_t results = n * out * size * size, products = 2 * results * in * 25;
    return products + results + products + results + (input_wanted ? products : 0);
  };
  // Four comparisons for each window, and an addition.
  const auto pool_flops = [](int64_t results) { return 4 * results + results; };
  CHECK(costs.flops() == conv_flops(1, 20, 24, false) + relu_flops(n * 20 * 24 * 24) +
                             pool_flops(n * 20 * 12 * 12) + conv_flops(20, 50, 8, true) +
                             relu_flops(n * 50 * 8 * 8) + pool_flops(n * 50 * 4 * 4) +
                             linear_flops(n, 800, 500, true) + relu_flops(n * 500) +
                             linear_flops(n, 500, 10, true) + loss_flops(n, 10));
}
