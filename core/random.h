// Defines Generator and the Philox4x32-10 counter-based random numbers beneath it.
//
// Philox (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a
// bijection of a 128-bit counter under a 64-bit key. Word i of a stream depends on (seed, i) alone,
// so the same numbers come out on any number of threads and on any device, and the whole state of a
// generator is two integers.
//
// Read in this order: philox(), the stream of words, numbers made from words, Generator, tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "core/tensor.h"

namespace capstan {

/// Four random 32-bit words for a counter and key; constexpr so that host and device share it.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

/// The stream of `seed` is an endless row of words; this is words 4 * block to 4 * block + 3.
constexpr std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// Word `index` of the stream of `seed`.
constexpr uint32_t random_word(uint64_t seed, uint64_t index) {
  return random_block(seed, index / 4)[index % 4];
}

/// Words that one number takes. Element i of a random tensor that begins at word `offset` is made
/// from the words offset + i * n, ..., where n is:
template <class T>
inline constexpr uint64_t kUniformWords = sizeof(T) / sizeof(uint32_t);  // float 1, double 2
inline constexpr uint64_t kNormalWords = 2;                              // float and double
inline constexpr uint64_t kIntegerWords = 2;                             // every integer

/// A multiple of 2^-24 (float) or 2^-53 (double) in [0, 1), from kUniformWords<T> words.
constexpr float unit_uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
constexpr double unit_uniform(uint32_t low, uint32_t high) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

/// One of 0, ..., range - 1 from two words: the high half of their product with the range.
constexpr uint64_t scale_integer(uint32_t low, uint32_t high, uint64_t range) {
  const uint64_t word = uint64_t{high} << 32 | low;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(word) * range >> 64);
}

/// `unit` in [0, 1) moved to [low, high). Rounding may reach `high`, which is then stepped back.
template <class T>
T scale_uniform(T unit, double low, double high) {
  const T value = static_cast<T>(low + (high - low) * unit);
  return value < static_cast<T>(high) ? value
                                      : std::nextafter(static_cast<T>(high), static_cast<T>(low));
}

/// A number of the standard normal distribution, from two words: the cosine half of Box and Muller
/// ("A note on the generation of random normal deviates", 1958), in float64 on every device. Its
/// magnitude is at most sqrt(2 log 2^32) = 6.66.
inline double unit_normal(uint32_t radius, uint32_t angle) {
  const double u = (radius + 1.0) * 0x1p-32;  // in (0, 1], so that the logarithm is finite
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * 0x1p-32 * angle);
}

/// A place in a random stream. Drawing moves it on by the words drawn; saving it saves two
/// integers.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0, uint64_t offset = 0) : seed_(seed), offset_(offset) {}

  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }

  /// Reserves `words` words and returns the index of the first.
  uint64_t advance(uint64_t words) { return std::exchange(offset_, offset_ + words); }

  /// The stream of another seed, mixed from this one's seed (not its offset) and `stream`: a rank,
  /// a step, a sample's index. Streams of different (seed, stream) pairs are unrelated.
  Generator fork(uint64_t stream) const;

  /// A random 64-bit word: two words of the stream, the lower first.
  uint64_t next();
  /// Uniform in [0, bound), without bias. Throws ValueError for bound 0.
  uint64_t below(uint64_t bound);

  friend bool operator==(const Generator&, const Generator&) = default;

 private:
  uint64_t seed_;
  uint64_t offset_;
};

/// The calling thread's generator, used where none is passed. Threads start with equal seeds: ranks
/// that are threads then agree, and fork() where they must differ.
Generator& default_generator();
/// Restarts default_generator() from `seed`.
void manual_seed(uint64_t seed);

/// Uniform in [low, high), floating dtypes. Throws ValueError unless low < high, both finite.
Tensor rand(const Shape& shape, double low = 0, double high = 1, TensorOptions options = {},
            Generator& generator = default_generator());
/// Normal, floating dtypes. Throws ValueError for a negative deviation.
Tensor randn(const Shape& shape, double mean = 0, double deviation = 1, TensorOptions options = {},
             Generator& generator = default_generator());
/// Whole numbers in [low, high), integer dtypes. One takes 64 bits of the stream; that the range
/// may not divide 2^64 favours no number by more than range / 2^64. Throws ValueError unless low <
/// high and the dtype holds both ends.
Tensor randint(const Shape& shape, int64_t low, int64_t high,
               TensorOptions options = {.dtype = Dtype::int64},
               Generator& generator = default_generator());
/// 0, ..., count - 1 in the order of random_permutation(), int64 on cpu:0.
Tensor randperm(int64_t count, Generator& generator = default_generator());
/// 1 with the probability that `p` (floating) holds for the element, else 0, in the dtype of `p`.
/// Throws ValueError for a probability outside [0, 1].
Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());
/// A random order of 0, ..., count - 1 (Fisher-Yates; our own, the same everywhere).
std::vector<int64_t> random_permutation(int64_t count, Generator& generator);

}  // namespace capstan
