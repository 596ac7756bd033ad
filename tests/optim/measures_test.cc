// Tests of what is asked about whole tensors.
#include "optim/measures.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"

namespace capstan::optim {
namespace {

TEST_CASE("the two-norm is summed in float64") {
  CHECK(two_norm(from_vector<float>({3, -4}, {2})) == 5);
  CHECK(two_norm(from_vector<float>({3e30f, 4e30f}, {1, 2})) == doctest::Approx(5e30));
  CHECK(two_norm(zeros({0, 2})) == 0);
  CHECK_THROWS_AS(two_norm(ones({2}, {.device = Device::meta()})), DeviceError);
}

TEST_CASE("a tensor is finite if all its elements are") {
  CHECK(all_finite(from_vector<float>({3e38f, -3e38f}, {2})));
  CHECK(all_finite(from_vector<double>({1e300, -1e300}, {2})));
  CHECK(all_finite(zeros({0})));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    CHECK_FALSE(all_finite(from_vector<double>({1e300, bad, 0}, {3})));
    CHECK_FALSE(all_finite(from_vector<float>({1, static_cast<float>(bad), 0}, {3})));
  }
  CHECK_THROWS_AS(all_finite(ones({2}, {.device = Device::meta()})), DeviceError);
}

}  // namespace
}  // namespace capstan::optim
