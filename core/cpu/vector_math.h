// Defines transform(), which applies exp, log and some other functions to a row with Eigen's packet
// math.
//
// Rows are worked on in blocks of kLanes elements, and what is left at the end is padded to a whole
// block. So every element passes through the same instructions, and its result depends neither on
// its place in the row nor on its address.
#pragma once

#include <Eigen/Core>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

#include "core/formulas.h"

namespace capstan::cpu {

inline constexpr int kLanes = 32;

template <class T>
using Block = Eigen::Array<T, kLanes, 1>;

template <class F, class... Formulas>
inline constexpr bool is_one_of = (std::is_same_v<F, Formulas> || ...);

/// True for the formulas that apply_block() knows in T.
template <class F, class T>
inline constexpr bool has_block_form =
    is_one_of<F, formulas::Exp, formulas::Expm1, formulas::Log, formulas::Log1p, formulas::Tanh,
              formulas::Sigmoid> ||
    (is_one_of<F, formulas::Sin, formulas::Cos, formulas::Erf> && std::is_same_v<T, float>);

/// out = F(in) for kLanes elements; `out` may be `in`.
template <class F, class T>
void apply_block(const T* in, T* out) {
  const Eigen::Map<const Block<T>> x(in);
  Block<T> y;
  if constexpr (std::is_same_v<F, formulas::Exp>) y = x.exp();
  if constexpr (std::is_same_v<F, formulas::Expm1>) y = x.expm1();
  if constexpr (std::is_same_v<F, formulas::Log>) y = x.log();
  if constexpr (std::is_same_v<F, formulas::Log1p>) y = x.log1p();
  if constexpr (std::is_same_v<F, formulas::Tanh>) y = x.tanh();
  if constexpr (std::is_same_v<F, formulas::Sigmoid>) y = x.logistic();
  if constexpr (std::is_same_v<F, formulas::Sin>) y = x.sin();
  if constexpr (std::is_same_v<F, formulas::Cos>) y = x.cos();
  if constexpr (std::is_same_v<F, formulas::Erf>) y = x.erf();
  if constexpr (is_one_of<F, formulas::Exp, formulas::Sigmoid>) {
    // Where exp underflows, Eigen 3.4 stops at the smallest number it can make, and a masked
    // softmax would not be exactly 0.
    constexpr T tiny = sizeof(T) == 4 ? T(-88.5) : T(-709);
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) out[i] = in[i] < tiny ? T{0} : y[i];
  } else {
    Eigen::Map<Block<T>> result(out);
    result = y;
  }
}

/// out[j] = F(in[j]) for a row of any steps; `out` may be `in`.
template <class F, class T>
void transform(int64_t count, const T* in, int64_t in_step, T* out, int64_t out_step) {
  using C = compute_type<T>;
  int64_t j = 0;
  if constexpr (std::is_same_v<C, T>) {
    if (in_step == 1 && out_step == 1) {
      for (; j + kLanes <= count; j += kLanes) apply_block<F>(in + j, out + j);
    }
  }
  for (; j < count; j += kLanes) {
    const int64_t lanes = std::min<int64_t>(kLanes, count - j);
    alignas(64) C block[kLanes] = {};
    for (int64_t i = 0; i < lanes; ++i) block[i] = in[(j + i) * in_step];
    apply_block<F>(block, block);
    for (int64_t i = 0; i < lanes; ++i) out[(j + i) * out_step] = static_cast<T>(block[i]);
  }
}

}  // namespace capstan::cpu
