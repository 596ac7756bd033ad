// Experts on several processes against all of them on one.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/mpi.h"
#include "distributed/comm/self.h"
#include "distributed/expert_parallel/mixture_of_experts.h"

namespace capstan::distributed {
namespace {

TEST_CASE("processes share experts, and tokens find them") {
  for (bool share : {true, false}) {
    const auto ranks = make_mpi({.share_memory = share}), self = make_self();
    const auto run = [&](Communicator& communicator) {
      manual_seed(6);
      MixtureOfExperts layer(8, {.experts = 2 * ranks->size(), .chosen = 2, .hidden = 16},
                             communicator);
      Generator generator = Generator(2).fork(ranks->rank());
      const Tensor x = require_grad(randn({11, 8}, 0, 1, {}, generator));
      const Tensor y = layer(x);
      backward(sum(y * y));
      return std::pair(y, x.grad());
    };
    const auto [y, grad] = run(*ranks);
    const auto [expected, expected_grad] = run(*self);
    CHECK(max(absolute(y - expected)).item<float>() < 1e-6);
    CHECK(max(absolute(grad - expected_grad)).item<float>() < 1e-5);
  }
}

}  // namespace
}  // namespace capstan::distributed
