// Implements combine() with the formulas of the tensor operations, so that ranks and elements are
// combined by the same rules: integers wrap around, NaN propagates.
#include "distributed/comm/combine.h"

#include "core/formulas.h"

namespace capstan::distributed {
namespace {

// (Of floating point numbers they are refused before.)
struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return a & b;
    return a;
  }
};
struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return a | b;
    return a;
  }
};

template <class Formula>
void combine_with(Dtype dtype, const void* a, const void* b, void* out, int64_t count) {
  visit_dtype(dtype, [&]<class T>() {
    const auto* x = static_cast<const T*>(a);
    const auto* y = static_cast<const T*>(b);
    auto* z = static_cast<T*>(out);
    for (int64_t i = 0; i < count; ++i) z[i] = Formula{}(x[i], y[i]);
  });
}

}  // namespace

void combine(Reduce op, Dtype dtype, const void* a, const void* b, void* out, int64_t count) {
  if (dtype == Dtype::boolean) {  // "or" is the larger of two bytes 0 or 1, "and" the smaller
    const bool any = op == Reduce::sum || op == Reduce::max || op == Reduce::bit_or;
    return combine(any ? Reduce::max : Reduce::min, Dtype::uint8, a, b, out, count);
  }
  switch (op) {
    case Reduce::sum:
    case Reduce::mean:  // a sum, which Communicator divides
      return combine_with<formulas::Add>(dtype, a, b, out, count);
    case Reduce::min:
      return combine_with<formulas::Minimum>(dtype, a, b, out, count);
    case Reduce::max:
      return combine_with<formulas::Maximum>(dtype, a, b, out, count);
    case Reduce::product:
      return combine_with<formulas::Multiply>(dtype, a, b, out, count);
    case Reduce::bit_and:
      return combine_with<BitAnd>(dtype, a, b, out, count);
    case Reduce::bit_or:
      return combine_with<BitOr>(dtype, a, b, out, count);
  }
}

}  // namespace capstan::distributed
