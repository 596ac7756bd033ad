// Defines the element-wise formulas, one functor each, and visit_unary()/visit_binary()/
// visit_compare(), the one way from an enum of core/backend.h to a functor.
//
// The functors compile for host and device alike, so that a test on the CPU checks the arithmetic
// that a GPU runs. Integers wrap around; NaN propagates through maximum, minimum and relu.
#pragma once

#include <cmath>
#include <type_traits>

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

// One input.

struct Negate : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return static_cast<T>(-static_cast<wrapping<T>>(x));
  }
};
struct Absolute : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    return x < T{0} ? Negate{}(x) : x;
  }
};
struct Square : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(x));
  }
};
struct Relu : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};
struct Exp : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return std::exp(x);
  }
};
struct Log : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return std::log(x);
  }
};
struct Sqrt : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Reciprocal : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return T{1} / x;
  }
};
struct Tanh : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return std::tanh(x);
  }
};
struct Sigmoid : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T x) const {
    return T{1} / (T{1} + std::exp(-x));
  }
};

// Two inputs.

struct Add : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  }
};
struct Subtract : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) - static_cast<wrapping<T>>(b));
  }
};
struct Multiply : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
  }
};
struct Divide : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return a / b;
  }
};
struct Power : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return std::pow(a, b);
  }
};
struct Maximum : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    // a != a: NaN; a NaN in b fails the comparison and is taken. `|` keeps branches out.
    return (a > b) | (a != a) ? a : b;
  }
};
struct Minimum : AnyDtype {
  template <class T>
  CAPSTAN_HD T operator()(T a, T b) const {
    return (a < b) | (a != a) ? a : b;
  }
};

// Derivatives, from the upstream gradient and the function's saved result y.

struct ReluGrad : FloatingOnly {
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return y > T{0} ? grad : T{0};
  }
};
struct TanhGrad : FloatingOnly {  // d tanh = 1 - tanh^2
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return grad * (T{1} - y * y);
  }
};
struct SigmoidGrad : FloatingOnly {  // d sigmoid = sigmoid (1 - sigmoid)
  template <class T>
  CAPSTAN_HD T operator()(T grad, T y) const {
    return grad * (y * (T{1} - y));
  }
};

// Comparisons.

struct Equal {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  CAPSTAN_HD bool operator()(T a, T b) const {
    return a >= b;
  }
};

/// Calls f(functor) with the formula of `op`.
template <class F>
void visit_unary(Unary op, F&& f) {
  switch (op) {
    case Unary::negate:
      return f(Negate{});
    case Unary::absolute:
      return f(Absolute{});
    case Unary::exp:
      return f(Exp{});
    case Unary::log:
      return f(Log{});
    case Unary::sqrt:
      return f(Sqrt{});
    case Unary::square:
      return f(Square{});
    case Unary::reciprocal:
      return f(Reciprocal{});
    case Unary::tanh:
      return f(Tanh{});
    case Unary::sigmoid:
      return f(Sigmoid{});
    case Unary::relu:
      return f(Relu{});
  }
}

template <class F>
void visit_binary(Binary op, F&& f) {
  switch (op) {
    case Binary::add:
      return f(Add{});
    case Binary::subtract:
      return f(Subtract{});
    case Binary::multiply:
      return f(Multiply{});
    case Binary::divide:
      return f(Divide{});
    case Binary::maximum:
      return f(Maximum{});
    case Binary::minimum:
      return f(Minimum{});
    case Binary::power:
      return f(Power{});
    case Binary::relu_grad:
      return f(ReluGrad{});
    case Binary::tanh_grad:
      return f(TanhGrad{});
    case Binary::sigmoid_grad:
      return f(SigmoidGrad{});
  }
}

template <class F>
void visit_compare(Compare op, F&& f) {
  switch (op) {
    case Compare::equal:
      return f(Equal{});
    case Compare::not_equal:
      return f(NotEqual{});
    case Compare::less:
      return f(Less{});
    case Compare::less_equal:
      return f(LessEqual{});
    case Compare::greater:
      return f(Greater{});
    case Compare::greater_equal:
      return f(GreaterEqual{});
  }
}

}  // namespace capstan::formulas
