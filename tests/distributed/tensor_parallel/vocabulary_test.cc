// The loss and the best class of cut logits against those of whole ones, and what they send.
#include "distributed/tensor_parallel/vocabulary.h"

#include <doctest/doctest.h>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "distributed/tensor_parallel/door.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kClasses = 11;  // no multiple of 2, 3 or 4

/// This rank's slice of the classes.
Tensor own(const Tensor& x, const Communicator& ranks) {
  const Slice s = slice_of(x.size(-1), ranks.rank(), ranks.size());
  return slice(x, -1, s.first, s.first + s.count);
}

Tensor logits(TensorOptions options = {.dtype = Dtype::float64}) {
  Generator generator(3);
  return randn({4, 3, kClasses}, 0, 30, options, generator);  // some far below the largest
}

Tensor targets() {
  return from_vector<int64_t>({0, 10, -100, 3, 4, 5, -100, 7, 8, 2, 6, 1}, {4, 3});
}

TEST_CASE("loss and gradient are those of whole logits") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      for (auto reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
        const Tensor whole = require_grad(logits());
        Tensor expected =
            cross_entropy(reshape(whole, {12, kClasses}), reshape(targets(), {12}), reduction);
        const Tensor x = require_grad(logits());
        Tensor loss =
            vocabulary_cross_entropy(own(x, ranks), targets(), kClasses, ranks, reduction);
        if (reduction == LossReduction::none) {
          CHECK(loss.shape() == Shape{4, 3});
          loss = sum(loss * loss);  // slopes differ from sample to sample
          expected = sum(expected * expected);
        }
        backward(expected);
        backward(loss);
        CHECK(loss.item<double>() == doctest::Approx(expected.item<double>()).epsilon(1e-13));
        const auto got = own(x.grad(), ranks).to_vector<double>();
        const auto wanted = own(whole.grad(), ranks).to_vector<double>();
        for (size_t i = 0; i < got.size(); ++i) {
          CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
        }
      }
    });
  }
}

TEST_CASE("in float32 and bfloat16 to their digits") {
  run_ranks(3, [](Communicator& ranks) {
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      const Tensor whole = logits({.dtype = dtype});
      const Tensor loss = vocabulary_cross_entropy(own(whole, ranks), targets(), kClasses, ranks);
      CHECK(loss.dtype() == dtype);
      const double expected =
          cross_entropy(reshape(whole, {12, kClasses}), reshape(targets(), {12})).item<double>();
      CHECK(loss.item<double>() ==
            doctest::Approx(expected).epsilon(dtype == Dtype::float32 ? 1e-6 : 1e-2));
    }
  });
}

TEST_CASE("inside an Autocast the loss is float32, as that of whole logits") {
  run_ranks(2, [](Communicator& ranks) {
    const Autocast guard;
    const Tensor x = own(logits({.dtype = Dtype::bfloat16}), ranks);
    CHECK(vocabulary_cross_entropy(x, targets(), kClasses, ranks).dtype() == Dtype::float32);
  });
}

TEST_CASE("a batch of which all is ignored, or that is empty, has loss 0") {
  run_ranks(2, [](Communicator& ranks) {
    const Tensor x = require_grad(logits());
    const Tensor none = full({4, 3}, -100, {.dtype = Dtype::int64});
    const Tensor loss = vocabulary_cross_entropy(own(x, ranks), none, kClasses, ranks);
    CHECK(loss.item<double>() == 0);
    backward(loss);
    CHECK(sum(absolute(x.grad())).item<double>() == 0);
    const Tensor empty_loss =
        vocabulary_cross_entropy(zeros({0, slice_of(kClasses, ranks.rank(), 2).count}),
                                 zeros({0}, {.dtype = Dtype::int64}), kClasses, ranks);
    CHECK(empty_loss.item<double>() == 0);
  });
}

TEST_CASE("it sends three numbers a token, whatever the number of classes") {
  run_ranks(2, [](Communicator& ranks) {
    constexpr int64_t kTokens = 64, kMany = 4096;
    const Tensor x = require_grad(randn({kTokens, kMany / 2}));
    const Tensor labels = randint({kTokens}, 0, kMany);
    const int64_t before = ranks.traffic().bytes_sent;
    backward(vocabulary_cross_entropy(x, labels, kMany, ranks));
    CHECK(ranks.traffic().bytes_sent - before <= 3 * 4 * kTokens);
  });
}

TEST_CASE("the best class is the first of equals, wherever it lies") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      const Tensor x = logits();
      CHECK(vocabulary_argmax(own(x, ranks), kClasses, ranks).to_vector<int64_t>() ==
            argmax(x, -1).to_vector<int64_t>());
      const Tensor equals = from_vector<float>({0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1}, {1, 11});
      CHECK(vocabulary_argmax(own(equals, ranks), kClasses, ranks).item<int64_t>() == 5);
    });
  }
}

TEST_CASE("what does not fit is refused") {
  run_ranks(2, [](Communicator& ranks) {
    const Tensor x = own(logits(), ranks);
    CHECK_THROWS_WITH_AS(vocabulary_cross_entropy(logits(), targets(), kClasses, ranks),
                         doctest::Contains("of the 11 classes, got logits [4, 3, 11]"), ShapeError);
    CHECK_THROWS_AS(
        vocabulary_cross_entropy(x, zeros({12}, {.dtype = Dtype::int64}), kClasses, ranks),
        ShapeError);
    CHECK_THROWS_AS(vocabulary_cross_entropy(x, zeros({4, 3}), kClasses, ranks), DtypeError);
    CHECK_THROWS_AS(vocabulary_cross_entropy(cast(x, Dtype::int64), targets(), kClasses, ranks),
                    DtypeError);
    CHECK_THROWS_WITH_AS(vocabulary_cross_entropy(x, targets() + 1, kClasses, ranks),
                         doctest::Contains("must be in [0, 11) or the ignored -100, got 11"),
                         ValueError);
    CHECK_THROWS_AS(vocabulary_argmax(logits(), kClasses, ranks), ShapeError);
  });
}

}  // namespace
}  // namespace capstan::distributed
