// Tests of Embedding.
#include "nn/embedding.h"

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

TEST_CASE("numbers out of the table are refused") {
  CHECK_THROWS_WITH_AS(Embedding(4, 2, {.padding = 4}),
                       "[embedding] padding must be in [0, 4), got 4", ValueError);
  CHECK_THROWS_AS(Embedding(4, 2, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(Embedding(4, 2)(from_vector<int64_t>({4}, {1})), ValueError);
  CHECK_THROWS_AS(Embedding(4, 2)(ones({1})), DtypeError);
}

}  // namespace
}  // namespace capstan::nn
