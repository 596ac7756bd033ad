// Defines ExactSum, a sum of numbers that does not depend on their order.
//
// Every float64 is an integer times 2^-1074, so a sum of them is exact in an integer that is wide
// enough: about 2100 bits (Kulisch, "Computer arithmetic and validity", 2008). It is kept as digits
// of 32 bits in words of 64, so that an addition touches two words and carries wait (Neal, "Fast
// exact summation using small and large superaccumulators", arXiv 1505.05571, section 3). Parts of
// a sum made elsewhere, on other threads or ranks, are added digit by digit; the value is the same
// to the last bit whoever added which numbers.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace capstan {

class ExactSum {
 public:
  /// Digit i counts 2^(32 i - 1074); the last word counts what was not finite.
  static constexpr int kDigits = 68;
  using Digits = std::array<int64_t, kDigits + 1>;

  void add(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const int field = static_cast<int>(bits >> 52) & 0x7ff;
    if (field == 0x7ff) {
      digits_[kDigits] += 1;
      return;
    }
    if (++uncarried_ == kMostUncarried) carry();
    const int exponent = field - (field > 0);  // of a number below the normal ones: as the lowest
    const auto mantissa =
        static_cast<int64_t>((bits & 0xfffffffffffff) | (uint64_t{field > 0} << 52));
    const int64_t sign = -static_cast<int64_t>(bits >> 63);  // 0 or -1: (m ^ s) - s negates
    const int digit = exponent >> 5, shift = exponent & 31;
    const auto low = static_cast<int64_t>(static_cast<uint64_t>(mantissa) << shift & 0xffffffff);
    digits_[digit] += (low ^ sign) - sign;
    digits_[digit + 1] += ((mantissa >> (32 - shift)) ^ sign) - sign;
  }

  void add(const ExactSum& other) { add(other.digits()); }
  /// Of another sum, or of up to 2^30 of them added digit by digit.
  void add(const Digits& digits);

  /// Each in [0, 2^32), but for the sign of the whole in the highest.
  Digits digits() const;

  /// Rounded to the nearest; NaN if a number was not finite.
  double value() const;

 private:
  // A digit and a mantissa's upper part stay below 2^53; so many of them stay below 2^63.
  static constexpr int kMostUncarried = 1 << 9;

  void carry();

  Digits digits_{};
  int uncarried_ = 0;
};

}  // namespace capstan
