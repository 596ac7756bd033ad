// Defines expand_lzw(), which reads what compress(1) writes behind the three bytes of its header:
// LZW (Welch, "A technique for high-performance data compression", IEEE Computer 1984) with codes
// that grow from 9 to 16 bits.
//
// A code below 256 is that byte. The others stand for texts that grow while one reads: each code
// adds one, the text of the code before it and the first byte of its own. So both sides know the
// same texts, and none is sent.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace capstan::data {

/// Throws ValueError for a code that stands for nothing yet, and for more than `most` bytes.
std::string expand_lzw(std::span<const std::byte> codes, size_t most);

}  // namespace capstan::data
