// Copies into 16 bits round once, also from dtypes that hold more digits than a float.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/create.h"

namespace capstan {
namespace {

double converted(double value, Dtype dtype) {
  return static_cast<double>(full({}, value, {.dtype = dtype}).item<float>());
}

/// Numbers halfway between neighbours, and the doubles beside them, whose nearest float lies
/// halfway.
template <class T>
void check_halves(Dtype dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values, expected;
  const auto expect = [&](double value, double rounded) {
    values.insert(values.end(), {value, -value});
    expected.insert(expected.end(), {rounded, -rounded});
  };
  const auto number = [](int bits) {
    return static_cast<double>(static_cast<float>(T::from_bits(static_cast<uint16_t>(bits))));
  };
  const int infinite = T(std::numeric_limits<float>::infinity()).bits;
  for (int i = 1; i <= infinite; ++i) {
    const double low = number(i - 1), high = number(i);
    const double step = i == infinite ? low - number(i - 2) : high - low;
    const double half = low + step / 2;
    expect(half, i % 2 == 0 ? high : low);
    expect(std::nextafter(half, 0.0), low);
    expect(std::nextafter(half, infinity), high);
    expect(low, low);
  }
  expect(1e300, infinity);
  expect(infinity, infinity);
  expect(5e-324, 0);
  const auto count = static_cast<int64_t>(values.size());
  const Tensor narrow = empty({count}, {.dtype = dtype});
  copy_elements(from_vector(values, {count}), narrow);
  const std::vector<double> got = narrow.to_vector<double>();
  int wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    wrong += got[i] != expected[i] || std::signbit(got[i]) != std::signbit(expected[i]);
  }
  CHECK(wrong == 0);
  CHECK(std::isnan(converted(std::nan(""), dtype)));
}

TEST_CASE("doubles become the nearest number of 16 bits, halves the even one") {
  check_halves<Float16>(Dtype::float16);
  check_halves<BFloat16>(Dtype::bfloat16);
}

TEST_CASE("a fill and whole numbers round once too") {
  CHECK(converted(1 + 0x1p-11 + 0x1p-40, Dtype::float16) == 1 + 0x1p-10);
  CHECK(converted(1 + 0x1p-8 - 0x1p-40, Dtype::bfloat16) == 1);
  const auto copied = [](auto number) {
    const Tensor narrow = empty({1}, {.dtype = Dtype::bfloat16});
    copy_elements(from_vector<decltype(number)>({number}, {1}), narrow);
    return narrow.to_vector<double>().front();
  };
  const int32_t half = (1 << 30) + (1 << 22);
  CHECK(copied(half) == 0x1p30);
  CHECK(copied(half + 1) == 0x1p30 + 0x1p23);
  CHECK(copied(int64_t{half} + 1) == 0x1p30 + 0x1p23);
  CHECK(copied(half - 1) == 0x1p30);
}

}  // namespace
}  // namespace capstan
