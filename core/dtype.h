// Defines Dtype, the element types of tensors, promote(), the dtype in which two of them meet, and
// visit_dtype(), the one way from a runtime dtype to a C++ type.
//
// float16 and bfloat16 are stored in 16 bits and computed in float32 (core/half.h).
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "core/half.h"

namespace capstan {

enum class Dtype : uint8_t { float32, float64, float16, bfloat16, int64, int32, uint8, boolean };

/// All of them, in order.
inline constexpr Dtype kDtypes[] = {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16,
                                    Dtype::int64,   Dtype::int32,   Dtype::uint8,   Dtype::boolean};

/// The Dtype of a C++ element type: dtype_of<float> is Dtype::float32.
template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return Dtype::float32;
  if constexpr (std::is_same_v<T, double>) return Dtype::float64;
  if constexpr (std::is_same_v<T, Float16>) return Dtype::float16;
  if constexpr (std::is_same_v<T, BFloat16>) return Dtype::bfloat16;
  if constexpr (std::is_same_v<T, int64_t>) return Dtype::int64;
  if constexpr (std::is_same_v<T, int32_t>) return Dtype::int32;
  if constexpr (std::is_same_v<T, uint8_t>) return Dtype::uint8;
  if constexpr (std::is_same_v<T, bool>) return Dtype::boolean;
}

/// Calls f.operator()<T>() with the C++ type of `dtype`:
///   visit_dtype(t.dtype(), [&]<class T>() { fill(t.data<T>()); });
template <class F>
constexpr decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::float32:
      return f.template operator()<float>();
    case Dtype::float64:
      return f.template operator()<double>();
    case Dtype::float16:
      return f.template operator()<Float16>();
    case Dtype::bfloat16:
      return f.template operator()<BFloat16>();
    case Dtype::int64:
      return f.template operator()<int64_t>();
    case Dtype::int32:
      return f.template operator()<int32_t>();
    case Dtype::uint8:
      return f.template operator()<uint8_t>();
    case Dtype::boolean:
      break;
  }
  return f.template operator()<bool>();
}

/// As visit_dtype, for what computes in floating point; throws DtypeError naming `operation`. There
/// is none for the 16-bit types: whoever calls this has widened them to compute_dtype().
template <class F>
constexpr decltype(auto) visit_floating(Dtype dtype, const char* operation, F&& f);

/// Bytes of one element.
constexpr int64_t item_size(Dtype dtype) {
  return visit_dtype(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

constexpr bool is_half(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

constexpr bool is_floating(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float64 || is_half(dtype);
}

/// The dtype in which kernels compute, and keep intermediate results: float32 for 16 bits.
constexpr Dtype compute_dtype(Dtype dtype) { return is_half(dtype) ? Dtype::float32 : dtype; }

/// The same of C++ types.
template <class T>
using compute_type =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

/// "float32", "int64", "bool", ...
std::string to_string(Dtype dtype);

/// The dtype in which `a` and `b` are combined, as in PyTorch: floating beats integer beats bool,
/// an integer takes the dtype of the floating one however narrow, else the wider wins; float16 and
/// bfloat16, of which neither holds the other, meet in float32. The table is in dtype.cc.
Dtype promote(Dtype a, Dtype b);

/// Throws DtypeError saying that `operation` takes `wanted`, not `got`.
[[noreturn]] void wrong_dtype(const char* operation, const char* wanted, Dtype got);

/// Throws DtypeError unless `dtype` is floating point.
inline void check_floating(const char* operation, Dtype dtype) {
  if (!is_floating(dtype)) wrong_dtype(operation, "floating point", dtype);
}

template <class F>
constexpr decltype(auto) visit_floating(Dtype dtype, const char* operation, F&& f) {
  if (dtype == Dtype::float64) return f.template operator()<double>();
  if (dtype != Dtype::float32) wrong_dtype(operation, "float32 or float64", dtype);
  return f.template operator()<float>();
}

}  // namespace capstan
