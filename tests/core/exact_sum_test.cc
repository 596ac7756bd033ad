// ExactSum against sums in 128-bit integers, and in every order.
#include "core/exact_sum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace capstan {
namespace {

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (double value : values) sum.add(value);
  return sum;
}

TEST_CASE("small numbers stay beside large ones") {
  CHECK(sum_of({}).value() == 0);
  CHECK(sum_of({1e300, 1, -1e300}).value() == 1);
  CHECK(sum_of({0x1p1000, 0x1p-1074, -0x1p1000}).value() == 0x1p-1074);
  CHECK(sum_of({0x1p-1074, -3e-5}).value() == -3e-5);
  CHECK(sum_of({1, 0x1p-60, -1}).value() == 0x1p-60);
  CHECK(sum_of({std::numeric_limits<double>::max(), std::numeric_limits<double>::max()}).value() ==
        HUGE_VAL);
  CHECK(sum_of({std::numeric_limits<double>::max(), 1e308, -1e308}).value() ==
        std::numeric_limits<double>::max());
}

TEST_CASE("the value is rounded to the nearest, halves to even") {
  CHECK(sum_of({1, 0x1p-53}).value() == 1);
  CHECK(sum_of({1, 0x1p-53, 0x1p-1000}).value() == 1 + 0x1p-52);
  CHECK(sum_of({1 + 0x1p-52, 0x1p-53}).value() == 1 + 0x1p-51);
  CHECK(sum_of({-1, -0x1p-53, -0x1p-1000}).value() == -1 - 0x1p-52);
}

TEST_CASE("what is not finite is not forgotten") {
  for (double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CHECK(std::isnan(sum_of({1, bad}).value()));
    ExactSum all;
    all.add(sum_of({bad}));
    CHECK(std::isnan(all.value()));
  }
}

TEST_CASE("many numbers: the sum of integers, in any order and in any parts") {
  std::mt19937_64 random(7);
  std::vector<double> values;
  __int128 expected = 0;  // in units of 2^-40
  for (int i = 0; i < 20'001; ++i) {
    const auto mantissa = static_cast<int64_t>(random() >> 12) - (int64_t{1} << 51);
    const int shift = static_cast<int>(random() % 50);
    values.push_back(std::ldexp(static_cast<double>(mantissa), shift - 40));
    expected += static_cast<__int128>(mantissa) << shift;
  }
  const double value = std::ldexp(static_cast<double>(expected), -40);
  for (int order = 0; order < 5; ++order) {
    CHECK(sum_of(values).value() == value);
    ExactSum parts[3], all;
    for (size_t i = 0; i < values.size(); ++i) parts[random() % 3].add(values[i]);
    ExactSum::Digits digits{};  // as an all-reduce adds them
    for (const ExactSum& part : parts) {
      for (size_t d = 0; d < digits.size(); ++d) digits[d] += part.digits()[d];
    }
    all.add(digits);
    CHECK(all.value() == value);
    CHECK(all.digits() == sum_of(values).digits());
    std::shuffle(values.begin(), values.end(), random);
  }
}

TEST_CASE("sums of equal numbers do not overflow a digit") {
  ExactSum sum;
  const double largest = 0x1.fffffffffffffp+31;
  for (int i = 0; i < 100'000; ++i) sum.add(largest);
  CHECK(sum.value() == largest * 100'000);
  for (int i = 0; i < 100'000; ++i) sum.add(-largest);
  CHECK(sum.value() == 0);
}

}  // namespace
}  // namespace capstan
