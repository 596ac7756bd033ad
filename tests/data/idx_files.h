// Defines how tests make IDX files: big endian headers, and gzip streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/deflate.h"

namespace capstan::testing {

/// An IDX file of elements with this code, whose bytes are `elements` (big endian already).
inline std::string idx_bytes(int code, const std::vector<uint32_t>& sizes,
                             const std::string& elements) {
  std::string bytes{'\0', '\0', static_cast<char>(code), static_cast<char>(sizes.size())};
  for (uint32_t size : sizes) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift);
  }
  return bytes + elements;
}

/// `bytes` as one gzip member.
inline std::string gzip(const std::string& bytes) { return deflated(bytes, 16 + MAX_WBITS); }

}  // namespace capstan::testing
