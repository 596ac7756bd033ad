// Tests of Embedding.
#include "nn/embedding.h"

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "tests/nn/reference.h"

namespace capstan::nn {
namespace {

TEST_CASE("rows are looked up, and the padding gets no gradient, as in PyTorch") {
  compare_with_pytorch(Embedding(5, 3, {.padding = 1}), "embedding");
}

TEST_CASE("the padding starts as 0") {
  Embedding table(4, 2, {.padding = 2});
  const auto values = table.weight.to_vector<float>();
  CHECK((values[4] == 0 && values[5] == 0 && values[0] != 0));
  CHECK(table.weight.requires_grad());
}

TEST_CASE("the parts of a table add up to it") {
  const Embedding whole(5, 3, {.padding = 3});
  const Tensor indices = from_vector<int64_t>({4, 0, 3, 2, 2, 1}, {2, 3});
  const auto run = [&](Embedding table) {
    require_grad(table.weight);
    const Tensor y = table(indices);
    backward(sum(y * y));
    return std::pair(y, table.weight.grad());
  };
  const auto part_of = [&](int64_t begin, int64_t end) {
    Embedding part = whole.clone();
    part.weight = Parameter(dense_copy(slice(whole.weight, 0, begin, end)));
    part.part = {begin, 5};
    return part;
  };
  const auto [all, all_grad] = run(whole.clone());
  const auto [low, low_grad] = run(part_of(0, 2));
  const auto [high, high_grad] = run(part_of(2, 5));
  CHECK((low + high).to_vector<float>() == all.to_vector<float>());
  CHECK(cat({low_grad, high_grad}).to_vector<float>() == all_grad.to_vector<float>());
  for (int64_t i : {-1, 5}) {
    CHECK_THROWS_WITH_AS(part_of(0, 2)(from_vector<int64_t>({1, i}, {2})),
                         doctest::Contains("[embedding] indices must be in [0, 5), got"),
                         ValueError);
  }
  CHECK_THROWS_AS(part_of(0, 2)(ones({1})), DtypeError);
}

TEST_CASE("numbers out of the table are refused") {
  CHECK_THROWS_WITH_AS(Embedding(4, 2, {.padding = 4}),
                       "[embedding] padding must be in [0, 4), got 4", ValueError);
  CHECK_THROWS_AS(Embedding(4, 2, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(Embedding(4, 2)(from_vector<int64_t>({4}, {1})), ValueError);
  CHECK_THROWS_AS(Embedding(4, 2)(ones({1})), DtypeError);
}

}  // namespace
}  // namespace capstan::nn
