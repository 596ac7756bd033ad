// Ring attention across processes against attention of the whole sequence.
#include <doctest/doctest.h>

#include "autograd/attention.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/indexing.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/mpi.h"
#include "distributed/context_parallel/ring_attention.h"

namespace capstan::distributed {
namespace {

TEST_CASE("keys and values go round among processes") {
  constexpr int64_t kLength = 240;  // a multiple of twice 1, 2, 3, 4, 6 and 8 ranks
  const TensorOptions exact{.dtype = Dtype::float64};
  for (bool share : {true, false}) {
    const auto ranks = make_mpi({.share_memory = share});
    for (SequenceCut cut : {SequenceCut::blocks, SequenceCut::zigzag}) {
      manual_seed(1);
      const Tensor q = randn({1, 4, kLength, 6}, 0, 1, exact);
      const Tensor k = require_grad(randn({1, 2, kLength, 6}, 0, 1, exact));
      const Tensor v = randn({1, 2, kLength, 6}, 0, 1, exact);
      Generator generator(2), same(2);
      const Tensor expected =
          scaled_dot_product_attention(q, k, v, {.causal = true, .dropout = 0.2}, generator);
      backward(sum(expected * expected));

      const Tensor places = sequence_places(kLength, cut, ranks->rank(), ranks->size());
      const auto own = [&](const Tensor& x) { return index_select(detach(x), 2, places); };
      const Tensor own_k = require_grad(own(k));
      const Tensor y = ring_attention(own(q), own_k, own(v), *ranks,
                                      {.causal = true, .cut = cut, .dropout = 0.2}, same);
      backward(sum(y * y));
      CHECK(max(absolute(y - own(expected))).item<double>() < 1e-12);
      CHECK(max(absolute(own_k.grad() - own(k.grad()))).item<double>() < 1e-12);
    }
  }
}

}  // namespace
}  // namespace capstan::distributed
