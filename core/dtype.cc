#include "core/dtype.h"

#include <algorithm>

#include "core/raise.h"

namespace capstan {

std::string to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "float32";
    case Dtype::float64:
      return "float64";
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
  // Ordered from weakest to strongest, so that the stronger of the two is the answer.
  constexpr Dtype order[] = {Dtype::boolean, Dtype::uint8,   Dtype::int32,
                             Dtype::int64,   Dtype::float32, Dtype::float64};
  const auto strength = [&](Dtype d) { return std::find(std::begin(order), std::end(order), d); };
  return *std::max(strength(a), strength(b));
}

void wrong_dtype(const char* operation, const char* wanted, Dtype got) {
  raise<DtypeError>("[{}] takes {}, got {}", operation, wanted, got);
}

}  // namespace capstan
