// order() against a stable sort of pairs.
#include <algorithm>
#include <numeric>

#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

Tensor order(const Tensor& in, bool descending, int64_t count) {
  const Tensor out = empty({in.size(0), count}, {.dtype = Dtype::int64});
  cpu().order(in, descending, out);
  return out;
}

}  // namespace

TEST_CASE("the first k of each row, equals in their order") {
  for (const Dtype dtype : kNumeric) {
    for (const Shape& shape : {Shape{0, 4}, Shape{1, 1}, Shape{5, 37}, Shape{2, 3000}}) {
      for (const bool descending : {false, true}) {
        const Tensor in = some_values(shape, dtype);  // integers repeat
        const auto values = in.to_vector<double>();
        for (const int64_t count : {int64_t{0}, int64_t{1}, shape[1] / 2, shape[1]}) {
          std::vector<int64_t> expected;
          for (int64_t row = 0; row < shape[0]; ++row) {
            std::vector<int64_t> positions(shape[1]);
            std::iota(positions.begin(), positions.end(), 0);
            std::stable_sort(positions.begin(), positions.end(), [&](int64_t a, int64_t b) {
              const double x = values[row * shape[1] + a], y = values[row * shape[1] + b];
              return descending ? x > y : x < y;
            });
            expected.insert(expected.end(), positions.begin(), positions.begin() + count);
          }
          CHECK(order(in, descending, count).to_vector<int64_t>() == expected);
          check_threads([&] { return order(in, descending, count); });
        }
      }
    }
  }
}

TEST_CASE("NaN is the largest") {
  const Tensor in = from_vector<float>({NAN, 1, INFINITY, -NAN, -1}, {1, 5});
  CHECK(order(in, false, 5).to_vector<int64_t>() == std::vector<int64_t>{4, 1, 2, 0, 3});
  CHECK(order(in, true, 5).to_vector<int64_t>() == std::vector<int64_t>{0, 3, 2, 1, 4});
  CHECK(order(in, true, 1).to_vector<int64_t>() == std::vector<int64_t>{0});
}
