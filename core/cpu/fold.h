// Defines fold_row(), the sum, maximum or minimum of a row in a fixed order: lanes take turns and
// are joined in a balanced tree. So the additions can run at once, and the result depends on
// nothing but the elements.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/formulas.h"

namespace capstan::cpu {

inline constexpr int kFoldLanes = 32;  // GCC 12 turns a loop over 16 into scalar code

/// False for every integer.
template <class T>
bool is_nan(T x) {
  return x != x;
}

/// How a reduction starts, takes an element, and joins two accumulators.
template <class T>
struct Sum {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  static constexpr Accumulator start = 0;
  static Accumulator take(Accumulator a, T x) { return formulas::Add{}(a, Accumulator(x)); }
  static Accumulator join(Accumulator a, Accumulator b) { return formulas::Add{}(a, b); }
};
template <class T>
struct Product {
  using Accumulator = typename Sum<T>::Accumulator;
  static constexpr Accumulator start = 1;
  static Accumulator take(Accumulator a, T x) { return formulas::Multiply{}(a, Accumulator(x)); }
  static Accumulator join(Accumulator a, Accumulator b) { return formulas::Multiply{}(a, b); }
};
template <class T>
struct SumOfSquares : Sum<T> {
  static double take(double a, T x) { return a + double(x) * double(x); }
};
template <class T>
struct Max {
  using Accumulator = T;
  static constexpr T start = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                         : std::numeric_limits<T>::lowest();
  static T take(T a, T x) { return formulas::Maximum{}(a, x); }
  static T join(T a, T b) { return formulas::Maximum{}(a, b); }
};
template <class T>
struct Min {
  using Accumulator = T;
  static constexpr T start = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity()
                                                         : std::numeric_limits<T>::max();
  static T take(T a, T x) { return formulas::Minimum{}(a, x); }
  static T join(T a, T b) { return formulas::Minimum{}(a, b); }
};

/// Joins values[0], values[step], ... in a balanced tree.
template <class Op, class A>
A join_pairwise(const A* values, int64_t count, int64_t step) {
  if (count == 1) return *values;
  const int64_t half = count / 2;
  return Op::join(join_pairwise<Op>(values, half, step),
                  join_pairwise<Op>(values + half * step, count - half, step));
}

/// Folds one row of any step; lanes keep the additions apart so that they can run at once.
template <class Op, class T>
typename Op::Accumulator fold_row(const T* x, int64_t count, int64_t step) {
  typename Op::Accumulator lanes[kFoldLanes];
  std::fill_n(lanes, kFoldLanes, Op::start);
  int64_t j = 0;
  if (step == 1) {
    for (; j + kFoldLanes <= count; j += kFoldLanes) {
      for (int l = 0; l < kFoldLanes; ++l) lanes[l] = Op::take(lanes[l], x[j + l]);
    }
  }
  for (; j < count; ++j) lanes[j % kFoldLanes] = Op::take(lanes[j % kFoldLanes], x[j * step]);
  return join_pairwise<Op>(lanes, std::clamp<int64_t>(count, 1, kFoldLanes), 1);
}

}  // namespace capstan::cpu
