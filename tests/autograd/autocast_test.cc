// Tests of Autocast: which operations run in which dtype, that gradients come back to float32
// leaves, and where it does not reach.
#include "autograd/autocast.h"

#include <doctest/doctest.h>

#include <thread>

#include "autograd/attention.h"
#include "autograd/checkpoint.h"
#include "autograd/convolution.h"
#include "autograd/einsum.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/losses.h"
#include "autograd/matmul.h"
#include "autograd/normalization.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/statistics.h"
#include "core/create.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/golden/golden.h"

namespace capstan {
namespace {

using testing::distance;

Tensor in(Dtype dtype, const Shape& shape) { return cast(randn(shape), dtype); }

TEST_CASE("products run in the guard's dtype, whatever the mixture of float32 and 16 bits") {
  for (const Dtype narrow : {Dtype::bfloat16, Dtype::float16}) {
    const Autocast guard(narrow);
    const auto is_narrow = [&](const Tensor& x) { CHECK(x.dtype() == narrow); };
    for (const Dtype given : {Dtype::float32, Dtype::bfloat16, Dtype::float16}) {
      const Tensor x = in(given, {2, 3}), w = in(Dtype::float32, {3, 3}),
                   b = in(Dtype::float32, {3});
      is_narrow(matmul(x, w));
      is_narrow(linear(x, w, &b));
      is_narrow(linear(x, w));
      is_narrow(addmm(b, x, w));
      is_narrow(dot(b, in(given, {3})));
      is_narrow(tensordot(x, w, {1}, {0}));
      is_narrow(einsum("ij,jk->ik", {x, w}));
      is_narrow(bmm(in(given, {2, 2, 3}), in(Dtype::float32, {2, 3, 4})));
      const Tensor image = in(given, {1, 3, 4, 4}), kernel = in(Dtype::float32, {3, 3, 2, 2});
      is_narrow(conv2d(image, kernel, &b, {.kernel = {2, 2}}));
      is_narrow(conv_transpose2d(image, kernel, &b, {.kernel = {2, 2}}));
      const Tensor q = in(given, {1, 2, 3, 4}), k = in(Dtype::float32, {1, 2, 3, 4});
      is_narrow(scaled_dot_product_attention(q, k, k, {.mask = in(Dtype::float32, {3, 3})}));
    }
  }
}

TEST_CASE("what adds up many numbers or cancels runs in float32") {
  const Autocast guard;
  const Tensor x = in(Dtype::bfloat16, {4, 3}), y = in(Dtype::float32, {4, 3});
  const Tensor weight = in(Dtype::float32, {3}), image = in(Dtype::bfloat16, {2, 3, 2, 2});
  const Tensor labels = zeros({4}, {.dtype = Dtype::int64});
  for (const Tensor& out : {softmax(x, 1),
                            log_softmax(x, 1),
                            cross_entropy(x, labels),
                            cross_entropy(x, labels, ClassLossOptions{.label_smoothing = 0.1}),
                            nll_loss(log_softmax(x, 1), labels, {}),
                            mse_loss(x, y),
                            l1_loss(x, y),
                            smooth_l1_loss(x, y),
                            huber_loss(x, y),
                            binary_cross_entropy(sigmoid(x), sigmoid(y)),
                            binary_cross_entropy_with_logits(x, sigmoid(y)),
                            kl_div(log_softmax(x, 1), softmax(y, 1)),
                            cosine_similarity(x, y, 1),
                            cosine_embedding_loss(x, y, ones({4})),
                            triplet_margin_loss(x, y, y),
                            layer_norm(x, {3}, &weight, &weight),
                            rms_norm(x, {3}, &weight),
                            group_norm(image, 3, &weight, &weight),
                            instance_norm(image, &weight, &weight),
                            batch_norm(image, &weight, &weight),
                            sum(x),
                            mean(x),
                            prod(x),
                            cumsum(x, 0),
                            var(x),
                            stddev(x),
                            norm(x),
                            logsumexp(x, {1})}) {
    CHECK(out.dtype() == Dtype::float32);
  }
}

TEST_CASE("weights of classes are widened with the logits") {
  const Autocast guard;
  const Tensor logits = in(Dtype::bfloat16, {4, 3}),
               weights = ones({3}, {.dtype = Dtype::bfloat16});
  const Tensor targets = zeros({4}, {.dtype = Dtype::int64});
  CHECK(cross_entropy(logits, targets, {.weights = weights}).dtype() == Dtype::float32);
  CHECK(nll_loss(logits, targets, {.weights = weights}).dtype() == Dtype::float32);
}

TEST_CASE("the rest keeps or promotes, and float64 stays") {
  const Autocast guard;
  const Tensor narrow = in(Dtype::bfloat16, {3, 3}), wide = in(Dtype::float32, {3, 3}),
               exact = in(Dtype::float64, {3, 3});
  CHECK(relu(narrow).dtype() == Dtype::bfloat16);
  CHECK(relu(wide).dtype() == Dtype::float32);
  CHECK((narrow + wide).dtype() == Dtype::float32);
  CHECK(max(narrow).dtype() == Dtype::bfloat16);
  CHECK(matmul(exact, exact).dtype() == Dtype::float64);
  CHECK(sum(exact).dtype() == Dtype::float64);
  CHECK(sum(cast(wide, Dtype::int32)).dtype() == Dtype::int64);
}

TEST_CASE("gradients of float32 leaves are float32, and close to those of float32") {
  Generator generator(5);
  const Tensor x = randn({8, 5}, 0, 1, {}, generator);
  const Tensor w = require_grad(randn({4, 5}, 0, 1, {}, generator)),
               b = require_grad(randn({4}, 0, 1, {}, generator));
  const Tensor labels = remainder(arange(8, {.dtype = Dtype::int64}),
                                  scalar_beside(arange(1, {.dtype = Dtype::int64}), 4));
  const auto slopes = [&] {
    zero_grad(w);
    zero_grad(b);
    backward(cross_entropy(tanh(linear(x, w, &b)), labels));
    return std::pair{dense_copy(w.grad()), dense_copy(b.grad())};
  };
  const auto plain = slopes();
  {
    const Autocast guard;
    const auto cast_inside = slopes();  // backward inside the guard
    CHECK(cast_inside.first.dtype() == Dtype::float32);
    CHECK(cast_inside.second.dtype() == Dtype::float32);
    CHECK(distance(cast_inside.first, plain.first) < 0.02);
    CHECK(distance(cast_inside.first, plain.first) > 1e-6);
    zero_grad(w);
    zero_grad(b);
    const Tensor loss = cross_entropy(tanh(linear(x, w, &b)), labels);
    {
      const Autocast off(std::nullopt);
      backward(loss);  // and outside: the same
    }
    CHECK(distance(w.grad(), cast_inside.first) == 0);
    CHECK(distance(b.grad(), cast_inside.second) == 0);
  }
  CHECK(distance(slopes().first, plain.first) == 0);
}

TEST_CASE("a checkpointed function runs again as it ran, wherever backward is called") {
  Generator generator(6);
  const Tensor x = require_grad(randn({3, 5}, 0, 1, {}, generator)),
               w = require_grad(randn({5, 5}, 0, 1, {}, generator));
  const auto layer = [&](const Tensor& h) { return tanh(matmul(tanh(matmul(h, w)), w)); };
  const auto slope = [&](bool again) {
    zero_grad(x);
    zero_grad(w);
    Tensor loss;
    {
      const Autocast guard;
      loss = sum(again ? checkpoint(layer, x) : layer(x));
    }
    backward(loss);
    return dense_copy(w.grad());
  };
  CHECK(distance(slope(true), slope(false)) == 0);
}

TEST_CASE("guards nest, end with an exception, and belong to their thread") {
  CHECK_FALSE(autocast_dtype());
  try {
    const Autocast outer;
    CHECK(autocast_dtype() == Dtype::bfloat16);
    {
      const Autocast inner(Dtype::float16);
      CHECK(autocast_dtype() == Dtype::float16);
      const Autocast off(std::nullopt);
      CHECK_FALSE(autocast_dtype());
      CHECK(matmul(ones({1, 1}), ones({1, 1})).dtype() == Dtype::float32);
    }
    CHECK(autocast_dtype() == Dtype::bfloat16);
    std::thread([] { CHECK_FALSE(autocast_dtype()); }).join();
    matmul(ones({2, 3}), ones({2, 3}));
  } catch (const ShapeError&) {
  }
  CHECK_FALSE(autocast_dtype());
  CHECK_THROWS_WITH_AS(Autocast(Dtype::float32),
                       "[autocast] takes bfloat16 or float16, got float32", DtypeError);
  CHECK_FALSE(autocast_dtype());
}

}  // namespace
}  // namespace capstan
