// take_rows and add_rows against plain loops.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("take_rows copies the named rows, add_rows adds into them, repeated ones too") {
  for (const Dtype dtype : kNumeric) {
    for (const Shape& shape :
         {Shape{5}, Shape{5, 1}, Shape{5, 3, 7}, Shape{5, 2000}, Shape{5, 0}}) {
      std::vector<int64_t> chosen = {4, 0, 4, 2, 2, 2, 1};
      const Tensor indices = from_vector(chosen, {static_cast<int64_t>(chosen.size())});
      Shape taken_shape = shape;
      taken_shape[0] = static_cast<int64_t>(chosen.size());
      const Tensor in = some_values(shape, dtype), taken = empty(taken_shape, {.dtype = dtype});
      cpu().take_rows(in, indices, taken);

      const int64_t width = numel(shape) / 5;
      const auto values = in.to_vector<double>();
      std::vector<double> expected;
      for (const int64_t row : chosen) {
        expected.insert(expected.end(), values.begin() + row * width,
                        values.begin() + (row + 1) * width);
      }
      CHECK(taken.to_vector<double>() == expected);

      const Tensor target = some_values(shape, dtype, 3);
      auto sums = target.to_vector<double>();
      for (size_t i = 0; i < expected.size(); ++i) {
        double& sum = sums[chosen[i / width] * width + i % width];
        sum += expected[i];
        if (dtype == Dtype::uint8) sum = static_cast<uint8_t>(sum);
      }
      cpu().add_rows(taken, indices, target);
      CHECK(error_of(target, sums) < 5 * tolerance(dtype));
      check_threads([&] {
        const Tensor sum = some_values(shape, dtype, 3);
        cpu().add_rows(taken, indices, sum);
        return sum;
      });
    }
  }
}

TEST_CASE("no rows at all") {
  const Tensor none = empty({0}, {.dtype = Dtype::int64});
  cpu().take_rows(ones({3, 2}), none, empty({0, 2}));
  const Tensor target = ones({3, 2});
  cpu().add_rows(empty({0, 2}), none, target);
  CHECK(target.to_vector<double>() == std::vector<double>(6, 1));
}
