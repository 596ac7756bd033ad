// Defines the 16-bit floating-point types Float16 and BFloat16. They are for storing: arithmetic
// converts them to float, and kernels compute in compute_type<T> (core/dtype.h) and round once,
// when they store.
//
//              sign  exponent  fraction   largest    smallest normal   next after 1
//   Float16       1         5        10     65504           6.1e-5         1 + 2^-10   (IEEE 754)
//   BFloat16      1         8         7   3.39e38          1.2e-38          1 + 2^-7
//
// BFloat16 is a float without its lower half: the range stays, the digits go. Float16 keeps more
// digits, and small gradients become 0: see optim/grad_scaler.h.
//
// Rounding is to the nearest, halves to the even. The conversions are branch-free arithmetic on the
// bits, so that loops over them become vector code and host and device agree to the last bit.
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace capstan {

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  CAPSTAN_HD constexpr explicit Float16(float value) : bits(round(value)) {}
  CAPSTAN_HD static constexpr Float16 from_bits(uint16_t bits) {
    Float16 out;
    out.bits = bits;
    return out;
  }

  CAPSTAN_HD constexpr operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = bits & 0x7FFFu;
    // The fraction moves to its place in a float, where the exponent is 112 too small; the product
    // mends it, and makes normal numbers of the subnormal.
    const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f);
    const uint32_t infinite = rest << 13 | 0x7F800000u;  // or NaN
    return std::bit_cast<float>(sign | choose(rest < 0x7C00u, finite, infinite));
  }

 private:
  /// (A branch would keep the compiler from making vector code.)
  CAPSTAN_HD static constexpr uint32_t choose(bool first, uint32_t a, uint32_t b) {
    const uint32_t mask = -static_cast<uint32_t>(first);
    return (a & mask) | (b & ~mask);
  }

  CAPSTAN_HD static constexpr uint16_t round(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value), rest = all & 0x7FFFFFFFu;
    // Just below half of the last place, or half of it if that place is odd, and the carry rounds.
    const uint32_t normal = (rest + 0xFFFu + (rest >> 13 & 1u) - (112u << 23)) >> 13;
    // The last place of a float just above 0.5 is that of a subnormal Float16: the sum rounds
    // there.
    const float at_half = std::bit_cast<float>(choose(rest < 0x38800000u, rest, 0)) + 0.5f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(at_half) - 0x3F000000u;
    uint32_t out = choose(rest < 0x38800000u, subnormal, normal);
    out = choose(rest >= 0x477FF000u, 0x7C00u, out);  // from 65520: infinite
    out = choose(rest > 0x7F800000u, 0x7E00u, out);   // NaN
    return static_cast<uint16_t>(all >> 16 & 0x8000u) | static_cast<uint16_t>(out);
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  CAPSTAN_HD constexpr explicit BFloat16(float value) : bits(round(value)) {}
  CAPSTAN_HD static constexpr BFloat16 from_bits(uint16_t bits) {
    BFloat16 out;
    out.bits = bits;
    return out;
  }

  CAPSTAN_HD constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  CAPSTAN_HD static constexpr uint16_t round(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value);
    const uint32_t number = (all + 0x7FFFu + (all >> 16 & 1u)) >> 16;
    const uint32_t nan = all >> 16 | 0x40u;  // the carry must not make infinity of it
    return static_cast<uint16_t>((all & 0x7FFFFFFFu) > 0x7F800000u ? nan : number);
  }
};

/// The largest T below `value`, which is finite.
template <class T>
CAPSTAN_HD constexpr T next_below(T value) {
  const bool positive = (value.bits & 0x8000u) == 0, zero = (value.bits & 0x7FFFu) == 0;
  if (zero) return T::from_bits(0x8001);
  return T::from_bits(static_cast<uint16_t>(positive ? value.bits - 1 : value.bits + 1));
}

}  // namespace capstan
