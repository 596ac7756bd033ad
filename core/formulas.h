// Defines the element-wise formulas: Formula<op> for each entry of Unary, Binary and Compare in
// core/backend.h, and visit(), the one way from an entry to its formula.
//
// The functors compile for host and device alike, so that a test on the CPU checks the arithmetic
// that a GPU runs. Integers wrap around; NaN propagates through maximum, minimum and relu.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "core/backend.h"
#include "core/host_device.h"

namespace capstan::formulas {

/// The type in which T is added and multiplied: unsigned for signed integers, whose overflow would
/// be undefined, and T itself otherwise.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
};
template <>
struct Wrapping<int32_t> {
  using type = uint32_t;
};
template <class T>
using wrapping = typename Wrapping<T>::type;

/// Bases that say for which dtypes a formula has a meaning.
struct AnyDtype {
  static constexpr bool floating_only = false;
};
struct FloatingOnly {
  static constexpr bool floating_only = true;
};

/// The functor of one entry; a missing one is an error of the compiler.
template <auto op>
struct Formula;

// One input, all dtypes.

template <>
struct Formula<Unary::negate> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return static_cast<T>(-static_cast<wrapping<T>>(x));
  }
};
template <>
struct Formula<Unary::absolute> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    return x < T{0} ? Formula<Unary::negate>{}(x) : x;
  }
};
template <>
struct Formula<Unary::sign> : AnyDtype {  // NaN has none: 0
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return static_cast<T>((x > T{0}) - (x < T{0}));
  }
};
template <>
struct Formula<Unary::square> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(x));
  }
};
template <>
struct Formula<Unary::relu> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};
template <>
struct Formula<Unary::floor> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::floor(x);
    return x;
  }
};
template <>
struct Formula<Unary::ceil> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::ceil(x);
    return x;
  }
};
template <>
struct Formula<Unary::trunc> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
};
template <>
struct Formula<Unary::round> : AnyDtype {  // halves to the even number
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::rint(x);
    return x;
  }
};

// One input, floating point.

template <>
struct Formula<Unary::reciprocal> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return T{1} / x;
  }
};
template <>
struct Formula<Unary::sqrt> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::sqrt(x); }
};
template <>
struct Formula<Unary::rsqrt> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return T{1} / std::sqrt(x);
  }
};
template <>
struct Formula<Unary::exp> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::exp(x); }
};
template <>
struct Formula<Unary::exp2> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::exp2(x); }
};
template <>
struct Formula<Unary::expm1> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::expm1(x); }
};
template <>
struct Formula<Unary::log> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::log(x); }
};
template <>
struct Formula<Unary::log2> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::log2(x); }
};
template <>
struct Formula<Unary::log10> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::log10(x); }
};
template <>
struct Formula<Unary::log1p> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::log1p(x); }
};
template <>
struct Formula<Unary::sin> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::sin(x); }
};
template <>
struct Formula<Unary::cos> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::cos(x); }
};
template <>
struct Formula<Unary::tan> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::tan(x); }
};
template <>
struct Formula<Unary::asin> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::asin(x); }
};
template <>
struct Formula<Unary::acos> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::acos(x); }
};
template <>
struct Formula<Unary::atan> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::atan(x); }
};
template <>
struct Formula<Unary::sinh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::sinh(x); }
};
template <>
struct Formula<Unary::cosh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::cosh(x); }
};
template <>
struct Formula<Unary::tanh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::tanh(x); }
};
template <>
struct Formula<Unary::asinh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::asinh(x); }
};
template <>
struct Formula<Unary::acosh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::acosh(x); }
};
template <>
struct Formula<Unary::atanh> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::atanh(x); }
};
template <>
struct Formula<Unary::erf> : FloatingOnly {
  CAPSTAN_HD auto operator()(auto x) const { return std::erf(x); }
};
template <>
struct Formula<Unary::sigmoid> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return T{1} / (T{1} + std::exp(-x));
  }
};

// Two inputs.

template <>
struct Formula<Binary::add> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  }
};
template <>
struct Formula<Binary::subtract> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) - static_cast<wrapping<T>>(b));
  }
};
template <>
struct Formula<Binary::multiply> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
  }
};
template <>
struct Formula<Binary::divide> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return a / b;
  }
};
template <>
struct Formula<Binary::power> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return std::pow(a, b);
  }
};
template <>
struct Formula<Binary::atan2> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};
template <>
struct Formula<Binary::remainder> : AnyDtype {  // has the sign of b; integer b is not 0
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(a, b);
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? rest + b : rest;
    } else {
      if (b == static_cast<T>(-1)) return T{0};  // INT_MIN % -1 would trap
      const T rest = static_cast<T>(a % b);
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? static_cast<T>(rest + b) : rest;
    }
  }
};
template <>
struct Formula<Binary::floor_divide> : AnyDtype {  // integer b is not 0
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T{0}) return a / b;
      const T rest = std::fmod(a, b), quotient = std::rint((a - rest) / b);
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? quotient - T{1} : quotient;
    } else {
      if (b == static_cast<T>(-1)) return Formula<Unary::negate>{}(a);  // INT_MIN / -1 would trap
      const T rest = static_cast<T>(a % b);
      return static_cast<T>(a / b - (rest != T{0} && (rest < T{0}) != (b < T{0})));
    }
  }
};
template <>
struct Formula<Binary::maximum> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    // a != a: NaN; a NaN in b fails the comparison and is taken. `|` keeps branches out.
    return (a > b) | (a != a) ? a : b;
  }
};
template <>
struct Formula<Binary::minimum> : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return (a < b) | (a != a) ? a : b;
  }
};

// Derivatives, from the upstream gradient and the function's saved result y.

template <>
struct Formula<Binary::relu_grad> : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return y > T{0} ? grad : T{0};
  }
};
template <>
struct Formula<Binary::tanh_grad> : FloatingOnly {  // d tanh = 1 - tanh^2
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return grad * (T{1} - y * y);
  }
};
template <>
struct Formula<Binary::sigmoid_grad> : FloatingOnly {  // d sigmoid = sigmoid (1 - sigmoid)
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return grad * (y * (T{1} - y));
  }
};

// Comparisons.

template <>
struct Formula<Compare::equal> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a == b;
  }
};
template <>
struct Formula<Compare::not_equal> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a != b;
  }
};
template <>
struct Formula<Compare::less> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a < b;
  }
};
template <>
struct Formula<Compare::less_equal> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a <= b;
  }
};
template <>
struct Formula<Compare::greater> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a > b;
  }
};
template <>
struct Formula<Compare::greater_equal> {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a >= b;
  }
};

/// Calls f(functor) with the formula of `op`, an entry of Unary, Binary or Compare.
template <class Op, class F>
void visit(Op op, const F& f) {
  const auto is_it = [&]<Op entry>() { return op == entry && (f(Formula<entry>{}), true); };
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (void)(is_it.template operator()<static_cast<Op>(i)>() || ...);
  }
  (std::make_integer_sequence<int, static_cast<int>(Op::count)>{});
}

// Short names of the formulas that kernels use by themselves.
using Add = Formula<Binary::add>;
using Multiply = Formula<Binary::multiply>;
using Maximum = Formula<Binary::maximum>;
using Minimum = Formula<Binary::minimum>;
using Exp = Formula<Unary::exp>;
using Expm1 = Formula<Unary::expm1>;
using Log = Formula<Unary::log>;
using Log1p = Formula<Unary::log1p>;
using Sin = Formula<Unary::sin>;
using Cos = Formula<Unary::cos>;
using Tanh = Formula<Unary::tanh>;
using Sigmoid = Formula<Unary::sigmoid>;
using Erf = Formula<Unary::erf>;

}  // namespace capstan::formulas
