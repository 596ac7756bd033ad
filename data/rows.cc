#include "data/rows.h"

#include <cstring>

#include "core/raise.h"

namespace capstan::data {

void check_indices(const char* operation, std::span<const int64_t> indices, int64_t size) {
  for (int64_t index : indices) {
    if (index < 0 || index >= size) {
      raise<ValueError>("[{}] index {} is out of range for {} samples", operation, index, size);
    }
  }
}

Tensor gather_rows(const Tensor& from, std::span<const int64_t> indices) {
  Shape shape = from.shape();
  shape[0] = std::ssize(indices);
  const Tensor out = empty(shape, {.dtype = from.dtype()});
  if (out.numel() == 0) return out;
  const int64_t row_bytes = out.bytes() / out.size(0);
  const auto* source = static_cast<const std::byte*>(from.address());
  auto* target = static_cast<std::byte*>(out.address());
  for (int64_t index : indices) {
    std::memcpy(target, source + index * row_bytes, static_cast<size_t>(row_bytes));
    target += row_bytes;
  }
  return out;
}

}  // namespace capstan::data
