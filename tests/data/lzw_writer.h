// Defines compress_lzw(), the slow and obvious opposite of data/lzw.h, for its tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace capstan::testing {

/// What compress(1) would write behind its header. Once `forget_at` bytes are read, only the bytes
/// are known again.
inline std::string compress_lzw(const std::string& text, size_t forget_at = SIZE_MAX) {
  std::string out;
  std::map<std::string, uint32_t> codes;
  uint32_t bits = 9, next = 0;
  size_t begin = 0, at = 0;  // in bits: where this width began, and where the next code goes
  const auto forget = [&] {
    codes.clear();
    for (int byte = 0; byte < 256; ++byte) codes[std::string(1, static_cast<char>(byte))] = byte;
    next = 257;
  };
  const auto change = [&](uint32_t width) {
    while ((at - begin) % (8 * bits) != 0) ++at;  // groups of eight codes
    out.resize(at / 8);
    begin = at;
    bits = width;
  };
  const auto put = [&](uint32_t code) {
    if (next > 1u << bits && bits < 16) change(bits + 1);
    out.resize((at + bits + 7) / 8);
    for (uint32_t i = 0; i < bits; ++i, ++at) {
      out[at / 8] = static_cast<char>(out[at / 8] | (code >> i & 1) << at % 8);
    }
  };

  forget();
  std::string word;
  for (size_t i = 0; i < text.size(); ++i) {
    if (codes.contains(word + text[i])) {
      word += text[i];
      continue;
    }
    put(codes[word]);
    if (next < 1 << 16) codes[word + text[i]] = next++;
    word = text[i];
    if (i >= forget_at) {
      forget_at = SIZE_MAX;
      put(256);
      change(9);
      forget();
    }
  }
  if (!word.empty()) put(codes[word]);
  return out;
}

}  // namespace capstan::testing
