// Defines for_each_piece(), which makes the words of random numbers many at a time; what one number
// is made of is in core/random.h.
#pragma once

#include "core/random.h"

namespace capstan::cpu {

/// Words 4 * first_block, ... of the stream of `seed`, for `blocks` blocks: philox() for all of
/// them side by side, since the compiler makes no vectors of the function itself.
template <uint64_t blocks>
void make_words(uint64_t seed, uint64_t first_block, uint32_t* words) {
  uint32_t c[4][blocks];
  for (uint64_t i = 0; i < blocks; ++i) {
    c[0][i] = static_cast<uint32_t>(first_block + i);
    c[1][i] = static_cast<uint32_t>((first_block + i) >> 32);
    c[2][i] = c[3][i] = 0;
  }
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint64_t a = uint64_t{0xD2511F53} * c[0][i];
      const uint64_t b = uint64_t{0xCD9E8D57} * c[2][i];
      c[0][i] = static_cast<uint32_t>(b >> 32) ^ c[1][i] ^ key[0];
      c[1][i] = static_cast<uint32_t>(b);
      c[2][i] = static_cast<uint32_t>(a >> 32) ^ c[3][i] ^ key[1];
      c[3][i] = static_cast<uint32_t>(a);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  for (uint64_t i = 0; i < blocks; ++i) {
    for (int k = 0; k < 4; ++k) words[4 * i + k] = c[k][i];
  }
}

/// Calls f(i, count, w) for consecutive pieces of [begin, end), where w points to the words of the
/// numbers i, ..., i + count - 1, `each` of them a number: those from offset + i * each on. The
/// words of a piece, 4 * blocks, are made together, lane by lane, which compiles to vector code.
template <uint64_t each, uint64_t blocks = 32, class F>
void for_each_piece(uint64_t seed, uint64_t offset, int64_t begin, int64_t end, const F& f) {
  constexpr int64_t kNumbers = (4 * blocks - 4) / each;  // up to 3 words come before the first
  uint32_t words[4 * blocks];
  for (int64_t i = begin; i < end; i += kNumbers) {
    const uint64_t first = offset + i * each;
    make_words<blocks>(seed, first / 4, words);
    f(i, std::min(kNumbers, end - i), words + first % 4);
  }
}

}  // namespace capstan::cpu
