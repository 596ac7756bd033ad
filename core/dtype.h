// Defines Dtype, the element types of tensors, and visit_dtype(), the one way from a runtime dtype
// to a C++ type.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace capstan {

enum class Dtype : uint8_t { float32, float64, int64, int32, uint8, boolean };

/// The Dtype of a C++ element type: dtype_of<float> is Dtype::float32.
template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return Dtype::float32;
  if constexpr (std::is_same_v<T, double>) return Dtype::float64;
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

/// As visit_dtype, for operations on floating point only; throws DtypeError naming `operation`.
template <class F>
constexpr decltype(auto) visit_floating(Dtype dtype, const char* operation, F&& f);

/// Bytes of one element.
constexpr int64_t item_size(Dtype dtype) {
  return visit_dtype(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

constexpr bool is_floating(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float64;
}

/// "float32", "int64", "bool", ...
std::string to_string(Dtype dtype);

/// The dtype in which `a` and `b` are combined: floating beats integer beats bool, then the wider;
/// int32 and int64 with float32 give float32 (as in PyTorch); uint8 with int32 gives int32.
Dtype promote(Dtype a, Dtype b);

/// Throws DtypeError saying that `operation` takes `wanted`, not `got`.
[[noreturn]] void wrong_dtype(const char* operation, const char* wanted, Dtype got);

template <class F>
constexpr decltype(auto) visit_floating(Dtype dtype, const char* operation, F&& f) {
  if (dtype == Dtype::float64) return f.template operator()<double>();
  if (dtype != Dtype::float32) wrong_dtype(operation, "float32 or float64", dtype);
  return f.template operator()<float>();
}

}  // namespace capstan
