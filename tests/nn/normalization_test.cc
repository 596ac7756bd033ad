// Tests of the normalising layers, and of their kernel where the harness of operations does not
// look: any number of threads, and gradients of gradients.
#include "nn/normalization.h"

#include "autograd/gradcheck.h"
#include "autograd/normalization.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "nn/batch_norm.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

TEST_CASE("normalising layers give PyTorch's results, gradients and running statistics") {
  compare_with_pytorch(LayerNorm({3, 4}), "layer_norm");
  compare_with_pytorch(GroupNorm(2, 4), "group_norm");
  compare_with_pytorch(InstanceNorm(3, {.affine = true}), "instance_norm");
  compare_with_pytorch(BatchNorm1d(3, {.momentum = 0.3}), "batch_norm1d");
  compare_with_pytorch(BatchNorm2d(3), "batch_norm2d");
}

TEST_CASE("weights start as 1, biases as 0, and can be left out") {
  LayerNorm norm(3);
  CHECK(norm.weight->to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(norm.bias->to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(LayerNorm({2, 3}, {.affine = false}).parameter_count() == 0);
  CHECK(RMSNorm(3).parameter_count() == 3);
  CHECK(InstanceNorm(3).parameter_count() == 0);
  CHECK(BatchNorm2d(3, {.affine = false}).parameter_count() == 0);
  BatchNorm1d batch(2);
  CHECK(batch.buffers()[0].first == "running_mean");
  CHECK(batch.buffers()[1].second.policy == BufferPolicy::averaged);
  CHECK(state_dict(batch).size() == 4);
}

TEST_CASE("root mean square norm divides by it") {
  const Tensor y = RMSNorm(2, {.epsilon = 0})(from_vector<float>({3, 4}, {1, 2}));
  CHECK(std::abs(y.to_vector<float>()[0] - 3 / std::sqrt(12.5f)) < 1e-6);
}

TEST_CASE("normalisation gives the same bits on any number of threads") {
  const Tensor x = rand({64, 33, 70}, -1, 1), seed = rand({64, 33, 70}, -1, 1);
  const auto results = [&](int threads, const auto& f) {
    set_thread_count(threads);
    const Tensor leaf = require_grad(dense_copy(x));
    const Tensor y = f(leaf);
    backward(y, {.seed = seed});
    set_thread_count(2);
    return std::pair(y.to_vector<float>(), leaf.grad().to_vector<float>());
  };
  const auto layer = [](const Tensor& x) { return layer_norm(x, {70}); };
  const auto batch = [](const Tensor& x) { return batch_norm(x); };
  for (int threads : {2, 5}) {
    CHECK(results(threads, layer) == results(1, layer));
    CHECK(results(threads, batch) == results(1, batch));
  }
}

TEST_CASE("a batch without samples teaches nothing, and evaluation needs one sample only") {
  BatchNorm1d norm(2);
  CHECK(norm(ones({0, 2})).shape() == Shape{0, 2});
  CHECK(norm.running_mean.to_vector<float>() == std::vector<float>{0, 0});
  norm.eval();
  CHECK(norm(full({1, 2}, 3)).to_vector<float>()[0] == doctest::Approx(3).epsilon(1e-4));
}

TEST_CASE("normalising layers say what does not fit") {
  CHECK_THROWS_WITH_AS(GroupNorm(2, 3), "[group_norm] 3 channels cannot be cut into 2 equal groups",
                       ValueError);
  CHECK_THROWS_AS(GroupNorm(0, 3), ValueError);
  CHECK_THROWS_AS(LayerNorm(3)(ones({2, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(
      BatchNorm1d(3)(ones({2, 3, 4, 4})),
      "[batch_norm] takes [n, channels] or [n, channels, length] of 3 channels, got [2, 3, 4, 4]",
      ShapeError);
  CHECK_THROWS_AS(BatchNorm2d(3)(ones({2, 4, 4, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(BatchNorm1d(3, {.momentum = 1.5}),
                       "[batch_norm] momentum must be in [0, 1], got 1.5", ValueError);
  CHECK_THROWS_AS(BatchNorm2d(3, {.momentum = -0.1}), ValueError);
  CHECK_THROWS_AS(BatchNorm1d(3)(ones({3})), ShapeError);
  CHECK_THROWS_AS(BatchNorm1d(3)(ones({1, 3})), ShapeError);
}

}  // namespace
}  // namespace capstan::nn
