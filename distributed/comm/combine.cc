// Implements combine().
#include "distributed/comm/combine.h"

#include <algorithm>
#include <type_traits>

namespace capstan::distributed {
namespace {

// Integer arithmetic is done unsigned: overflow wraps around instead of being undefined.
template <class T>
struct Arithmetic {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Arithmetic<T> {
  using type = std::make_unsigned_t<T>;
};

template <class T>
T apply(Reduce op, T a, T b) {
  using U = typename Arithmetic<T>::type;
  switch (op) {
    case Reduce::sum:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Reduce::product:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Reduce::min:
      return a < b || a != a ? a : b;  // a != a: a NaN stays
    case Reduce::max:
      break;
  }
  return a > b || a != a ? a : b;
}

template <Reduce op, class T>
void combine_as(const void* a, const void* b, void* out, int64_t count) {
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  auto* z = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) z[i] = apply(op, x[i], y[i]);
}

template <Reduce op>
void combine_with(Dtype dtype, const void* a, const void* b, void* out, int64_t count) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      constexpr bool any = op == Reduce::sum || op == Reduce::max;
      combine_as<any ? Reduce::max : Reduce::min, uint8_t>(a, b, out, count);
    } else {
      combine_as<op, T>(a, b, out, count);
    }
  });
}

}  // namespace

void combine(Reduce op, Dtype dtype, const void* a, const void* b, void* out, int64_t count) {
  switch (op) {
    case Reduce::sum:
      return combine_with<Reduce::sum>(dtype, a, b, out, count);
    case Reduce::min:
      return combine_with<Reduce::min>(dtype, a, b, out, count);
    case Reduce::max:
      return combine_with<Reduce::max>(dtype, a, b, out, count);
    case Reduce::product:
      return combine_with<Reduce::product>(dtype, a, b, out, count);
  }
}

}  // namespace capstan::distributed
