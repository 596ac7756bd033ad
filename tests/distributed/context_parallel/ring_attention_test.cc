// Ring attention against attention of the whole sequence on one rank.
#include "distributed/context_parallel/ring_attention.h"

#include <doctest/doctest.h>

#include "autograd/attention.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/indexing.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kLength = 24 * 7;  // 2 n divides it for 1 to 4 ranks; tiles do not

struct Inputs {
  Tensor q, k, v, weights;  // the last make a loss of the result
};

/// The same on all ranks: 6 heads in 2 groups, values of another width than keys.
Inputs inputs(Dtype dtype) {
  Generator generator(2);
  const auto normal = [&](const Shape& shape) {
    return require_grad(randn(shape, 0, 1.5, {.dtype = dtype}, generator));
  };
  return {normal({2, 6, kLength, 8}), normal({2, 2, kLength, 8}), normal({2, 2, kLength, 5}),
          detach(normal({2, 6, kLength, 5}))};
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return max(absolute(detach(a) - detach(b))).item<double>();
}

void compare(Communicator& ranks, Dtype dtype, const RingAttentionOptions& options, double limit) {
  CAPTURE(ranks.size());
  const Inputs whole = inputs(dtype);
  Generator generator(5, 3), same(5, 3);
  const Tensor expected = scaled_dot_product_attention(
      whole.q, whole.k, whole.v,
      {.causal = options.causal, .scale = options.scale, .dropout = options.dropout}, generator);
  backward(sum(expected * whole.weights));

  const Tensor places = sequence_places(kLength, options.cut, ranks.rank(), ranks.size());
  const auto own = [&](const Tensor& x) { return index_select(detach(x), 2, places); };
  const Tensor q = require_grad(own(whole.q)), k = require_grad(own(whole.k)),
               v = require_grad(own(whole.v));
  const Tensor y = ring_attention(q, k, v, ranks, options, same);
  CHECK(same == generator);
  CHECK(y.dtype() == dtype);
  CHECK(distance(y, own(expected)) < limit);
  backward(sum(y * own(whole.weights)));
  CHECK(distance(q.grad(), own(whole.q.grad())) < limit);
  CHECK(distance(k.grad(), own(whole.k.grad())) < limit);
  CHECK(distance(v.grad(), own(whole.v.grad())) < limit);
}

TEST_CASE("results and gradients are those of the whole sequence") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      for (SequenceCut cut : {SequenceCut::blocks, SequenceCut::zigzag}) {
        for (bool causal : {false, true}) {
          compare(ranks, Dtype::float64, {.causal = causal, .cut = cut}, 1e-12);
          compare(ranks, Dtype::float32, {.causal = causal, .cut = cut}, 1e-5);
        }
      }
      for (SequenceCut cut : {SequenceCut::blocks, SequenceCut::zigzag}) {
        for (bool causal : {false, true}) {
          compare(ranks, Dtype::float64, {.causal = causal, .cut = cut, .dropout = 0.3}, 1e-12);
        }
      }
      compare(ranks, Dtype::float64, {.causal = true, .scale = 0.1}, 1e-12);
      compare(ranks, Dtype::bfloat16, {.causal = true}, 0.1);
    });
  }
}

TEST_CASE("scores far apart, as of sharp attention, do not overflow") {
  run_ranks(3, [](Communicator& ranks) {
    compare(ranks, Dtype::float64, {.causal = true, .cut = SequenceCut::zigzag, .scale = 400},
            1e-9);
  });
}

TEST_CASE("places: each once, in order or folded") {
  const auto places = [](SequenceCut cut, int rank) {
    return sequence_places(8, cut, rank, 2).to_vector<int64_t>();
  };
  using Places = std::vector<int64_t>;
  CHECK(places(SequenceCut::blocks, 0) == Places{0, 1, 2, 3});
  CHECK(places(SequenceCut::blocks, 1) == Places{4, 5, 6, 7});
  CHECK(places(SequenceCut::zigzag, 0) == Places{0, 1, 6, 7});
  CHECK(places(SequenceCut::zigzag, 1) == Places{2, 3, 4, 5});
}

TEST_CASE("keys and values go round once, and once more with their gradients") {
  for (int n : {1, 2, 4}) {
    run_ranks(n, [](Communicator& ranks) {
      const Tensor q = require_grad(randn({1, 2, 8, 4})), k = require_grad(randn({1, 2, 8, 4})),
                   v = require_grad(randn({1, 2, 8, 4}));
      const int64_t bytes = k.bytes() + v.bytes(), n = ranks.size();
      const Tensor y = ring_attention(q, k, v, ranks, {.causal = true});
      CHECK(ranks.traffic().bytes_sent == (n - 1) * bytes);
      backward(sum(y));
      CHECK(ranks.traffic().bytes_sent == (n - 1) * 2 * bytes + (n > 1 ? n * bytes : 0));
    });
  }
}

TEST_CASE("on meta it gives shapes, sends nothing, and draws as many numbers") {
  run_ranks(2, [](Communicator& ranks) {
    const Tensor q = empty({1, 2, 4, 6}, {Dtype::float32, Device::meta()});
    const Tensor v = empty({1, 2, 4, 5}, {Dtype::float32, Device::meta()});
    Generator generator(1);
    CHECK(ring_attention(q, q, v, ranks, {.cut = SequenceCut::zigzag, .dropout = 0.1}, generator)
              .shape() == Shape{1, 2, 4, 5});
    CHECK(generator.offset() == 2 * 8 * 8);
    CHECK(ranks.traffic().bytes_sent == 0);
  });
}

TEST_CASE("what does not fit is refused") {
  run_ranks(2, [](Communicator& ranks) {
    const auto z = [](const Shape& shape) { return zeros(shape); };
    CHECK_THROWS_AS(ring_attention(z({1, 2, 8, 4}), z({1, 2, 6, 4}), z({1, 2, 6, 4}), ranks),
                    ShapeError);
    CHECK_THROWS_AS(ring_attention(z({1, 3, 8, 4}), z({1, 2, 8, 4}), z({1, 2, 8, 4}), ranks),
                    ShapeError);
    CHECK_THROWS_WITH_AS(ring_attention(z({1, 2, 3, 4}), z({1, 2, 3, 4}), z({1, 2, 3, 4}), ranks,
                                        {.cut = SequenceCut::zigzag}),
                         doctest::Contains("m must be even, got [1, 2, 3, 4]"), ShapeError);
    CHECK_THROWS_WITH_AS(
        ring_attention(z({1, 2, 4, 4}), z({1, 2, 4, 4}), z({1, 2, 4, 4}), ranks, {.dropout = 1}),
        doctest::Contains("dropout must be in [0, 1), got 1"), ValueError);
    CHECK_THROWS_AS(ring_attention(z({1, 2, 8, 4}), cast(z({1, 2, 8, 4}), Dtype::float64),
                                   z({1, 2, 8, 4}), ranks),
                    DtypeError);
    CHECK_THROWS_WITH_AS(sequence_places(10, SequenceCut::zigzag, 0, 2),
                         doctest::Contains("2 ranks cut a sequence into 4 blocks"), ShapeError);
    const Tensor q = require_grad(randn({1, 2, 4, 4}));
    CHECK_THROWS_AS(grad(sum(ring_attention(q, q, q, ranks)), q, {.create_graph = true}),
                    GradientError);
  });
  CHECK_THROWS_AS(run_ranks(2,
                            [](Communicator& ranks) {
                              const Tensor x = randn({1, 2, 4 + 2 * ranks.rank(), 4});
                              ring_attention(x, x, x, ranks);
                            }),
                  CommError);
}

}  // namespace
}  // namespace capstan::distributed
