#include "distributed/replicate.h"

#include <doctest/doctest.h>

#include "autograd/node.h"
#include "distributed/comm/thread.h"

namespace capstan::distributed {
namespace {

TEST_CASE("all ranks get rank 0's elements") {
  for (int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [](Communicator& communicator) {
      const Tensor a = full({3, 5}, communicator.rank() + 1);
      const Tensor b = full({}, communicator.rank() + 7, {.dtype = Dtype::int64});
      const Tensor none = empty({0, 2});
      replicate({{"a", a}, {"b", b}, {"none", none}}, communicator, "tensors");
      CHECK(a.to_vector<float>() == std::vector<float>(15, 1));
      CHECK(b.item<int64_t>() == 7);
      replicate({}, communicator, "nothing");
    });
  }
}

TEST_CASE(
    "ranks whose tensors differ by name, shape, dtype or training are refused, and nothing is "
    "copied") {
  const auto refuse = [](const std::string& name, const Shape& shape, Dtype dtype) {
    run_ranks(2, [&](Communicator& communicator) {
      const bool odd = communicator.rank() == 1;
      const Tensor x = odd ? full(shape, 1, {.dtype = dtype}) : full({2}, 0);
      CHECK_THROWS_WITH_AS(replicate({{odd ? name : "x", x}}, communicator, "the state"),
                           doctest::Contains("[agree] the state must be the same on all ranks"),
                           CommError);
      if (odd && dtype == Dtype::float32) CHECK(x.data<float>()[0] == 1);
    });
  };
  refuse("y", {2}, Dtype::float32);
  refuse("x", {1, 2}, Dtype::float32);
  refuse("x", {2}, Dtype::int32);
  run_ranks(2, [](Communicator& communicator) {
    const Tensor x = zeros({2});
    if (communicator.rank() == 1) require_grad(x);
    CHECK_THROWS_WITH_AS(replicate({{"x", x}}, communicator, "the state"),
                         doctest::Contains("frozen"), CommError);
  });
}

}  // namespace
}  // namespace capstan::distributed
