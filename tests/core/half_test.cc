// Float16 and BFloat16: every number, and the rounding of many floats.
#include "core/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

using namespace capstan;

namespace {

/// The value of a 16-bit pattern by the definition: sign, exponent and fraction of these widths.
double value_of(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, most = (1 << exponent_bits) - 1;
  const int exponent = bits >> fraction_bits & most;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == most) return fraction ? std::nan("") : sign * INFINITY;
  const double digits = std::ldexp(fraction, -fraction_bits) + (exponent ? 1 : 0);
  return sign * std::ldexp(digits, (exponent ? exponent : 1) - bias);
}

/// The nearest T by search: of the two around x the closer one, of equals the even one.
template <class T>
T nearest(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  uint16_t low = 0, high = T(INFINITY).bits;
  while (high - low > 1) {
    const uint16_t middle = (low + high) / 2;
    (float(T::from_bits(middle)) <= size ? low : high) = middle;
  }
  // Infinity stands where the next number would be.
  const double below = float(T::from_bits(low));
  const double step = below - float(T::from_bits(low - 1));
  const double above = high == T(INFINITY).bits ? below + step : float(T::from_bits(high));
  const bool up = size - below > above - size || (size - below == above - size && low % 2 == 1);
  return T::from_bits(sign | (size == INFINITY || up ? high : low));
}

template <class T>
void check_all(int exponent_bits, int fraction_bits) {
  int wrong_value = 0, wrong_bits = 0, wrong_below = 0;
  for (int i = 0; i < 65536; ++i) {
    const T x = T::from_bits(static_cast<uint16_t>(i));
    const double expected = value_of(x.bits, exponent_bits, fraction_bits);
    if (std::isnan(expected)) {
      wrong_value += !std::isnan(float(x));
      wrong_bits += !std::isnan(float(T(float(x))));
      continue;
    }
    wrong_value += float(x) != expected || std::signbit(float(x)) != std::signbit(expected);
    wrong_bits += T(float(x)).bits != x.bits;
    if (std::isinf(expected)) continue;
    const T below = next_below(x);
    if (std::isinf(float(below))) continue;
    const float middle = T(static_cast<float>((double(float(x)) + double(float(below))) / 2));
    wrong_below += !(below < x) || (middle != float(below) && middle != float(x));
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_bits == 0);
  CHECK(wrong_below == 0);

  int wrong_rounding = 0;
  for (uint64_t pattern = 0; pattern < uint64_t{1} << 32; pattern += 9973) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(pattern));
    if (!std::isnan(x)) wrong_rounding += T(x).bits != nearest<T>(x).bits;
  }
  for (int i = 1; i < T(INFINITY).bits; ++i) {  // numbers halfway between two, and their neighbours
    const double low = float(T::from_bits(static_cast<uint16_t>(i - 1)));
    const double high =
        i == T(INFINITY).bits - 1 ? low : float(T::from_bits(static_cast<uint16_t>(i)));
    const float half = static_cast<float>((low + high) / 2);
    for (const float x : {half, std::nextafter(half, 0.f), std::nextafter(half, INFINITY)}) {
      wrong_rounding += T(x).bits != nearest<T>(x).bits;
      wrong_rounding += T(-x).bits != nearest<T>(-x).bits;
    }
  }
  CHECK(wrong_rounding == 0);
}

}  // namespace

TEST_CASE("every Float16 has its value, and floats round to the nearest") {
  check_all<Float16>(5, 10);
  CHECK(float(Float16(65504.f)) == 65504);
  CHECK(float(Float16(65519.f)) == 65504);
  CHECK(std::isinf(float(Float16(65520.f))));
  CHECK(float(Float16(0x1p-25f)) == 0);
  CHECK(float(Float16(0x1.8p-25f)) == 0x1p-24f);
}

TEST_CASE("every BFloat16 has its value, and floats round to the nearest") {
  check_all<BFloat16>(8, 7);
  CHECK(float(BFloat16(1 + 0x1p-8f)) == 1);
  CHECK(float(BFloat16(1 + 0x1.8p-8f)) == 1 + 0x1p-7f);
  CHECK(std::isinf(float(BFloat16(std::numeric_limits<float>::max()))));
  CHECK(std::isnan(float(BFloat16(std::bit_cast<float>(0x7F800001u)))));
  CHECK(std::isnan(float(BFloat16(std::bit_cast<float>(0xFFFFFFFFu)))));
}
