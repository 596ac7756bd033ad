// Constants, and copies between any two layouts and dtypes.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {

namespace {

/// `value` as a float, or where it lies between two, the one of them whose last bit is 1: rounding
/// that to 16 bits gives what rounding `value` itself would, while the nearest float may lie
/// halfway between two numbers of 16 bits (Boldo, Melquiond, "Emulation of a FMA and correctly
/// rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4),
/// 2008).
float rounded_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double size = std::fabs(value), rounded = std::fabs(static_cast<double>(nearest));
  const uint32_t bits = std::bit_cast<uint32_t>(nearest), even = 1 - (bits & 1u);
  return std::bit_cast<float>(bits + even * (uint32_t{size > rounded} - uint32_t{size < rounded}));
}

/// `value` as a To, rounded once.
template <class To, class From>
To converted(From value) {
  constexpr bool more_than_float =
      std::numeric_limits<From>::digits > std::numeric_limits<float>::digits;
  if constexpr (is_half(dtype_of<To>()) && more_than_float) {
    return static_cast<To>(rounded_to_odd(static_cast<double>(value)));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

void CpuBackend::fill(const Tensor& out, double value) {
  visit_dtype(out.dtype(), [&]<class T>() {
    T* y = out.mutable_data<T>();
    const T same = converted<T>(value);
    cpu::for_each_row<1>({&out.layout()}, [&](int64_t n, auto at, auto step) {
      cpu::map_row(n, &same, 0, y + at[0], step[0], [](T x) { return x; });
    });
  });
}

void CpuBackend::copy(const Tensor& in, const Tensor& out) {
  visit_dtype(in.dtype(), [&]<class From>() {
    visit_dtype(out.dtype(), [&]<class To>() {
      const From* x = in.data<From>();
      To* y = out.mutable_data<To>();
      cpu::for_each_row<2>({&out.layout(), &in.layout()}, [&](int64_t n, auto at, auto step) {
        if constexpr (std::is_same_v<From, To>) {
          if (step[0] == 1 && step[1] == 1) {
            std::memmove(y + at[0], x + at[1], n * sizeof(To));
            return;
          }
        }
        cpu::map_row(n, x + at[1], step[1], y + at[0], step[0],
                     [](From value) { return converted<To>(value); });
      });
    });
  });
}

}  // namespace capstan
