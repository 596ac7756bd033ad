#include "core/dtype.h"

#include "core/raise.h"

namespace capstan {

std::string to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "float32";
    case Dtype::float64:
      return "float64";
    case Dtype::float16:
      return "float16";
    case Dtype::bfloat16:
      return "bfloat16";
    case Dtype::int64:
      return "int64";
    case Dtype::int32:
      return "int32";
    case Dtype::uint8:
      return "uint8";
    case Dtype::boolean:
      break;
  }
  return "bool";
}

Dtype promote(Dtype a, Dtype b) {
  constexpr Dtype f32 = Dtype::float32, f64 = Dtype::float64, f16 = Dtype::float16,
                  b16 = Dtype::bfloat16, i64 = Dtype::int64, i32 = Dtype::int32, u8 = Dtype::uint8,
                  bit = Dtype::boolean;
  // Rows and columns in the order of the enumeration.
  constexpr Dtype table[8][8] = {
      // f32  f64  f16  b16  i64  i32  u8   bit
      {f32, f64, f32, f32, f32, f32, f32, f32},  // f32
      {f64, f64, f64, f64, f64, f64, f64, f64},  // f64
      {f32, f64, f16, f32, f16, f16, f16, f16},  // f16
      {f32, f64, f32, b16, b16, b16, b16, b16},  // b16
      {f32, f64, f16, b16, i64, i64, i64, i64},  // i64
      {f32, f64, f16, b16, i64, i32, i32, i32},  // i32
      {f32, f64, f16, b16, i64, i32, u8, u8},    // u8
      {f32, f64, f16, b16, i64, i32, u8, bit},   // bit
  };
  return table[static_cast<int>(a)][static_cast<int>(b)];
}

void wrong_dtype(const char* operation, const char* wanted, Dtype got) {
  raise<DtypeError>("[{}] takes {}, got {}", operation, wanted, got);
}

}  // namespace capstan
