// Random tensors from Philox words; see core/random.h for what one number is made of.
#include "core/random.h"

#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

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
/// words of a piece are made together, lane by lane, which compiles to vector code.
template <uint64_t each, class F>
void for_each_piece(uint64_t seed, uint64_t offset, int64_t begin, int64_t end, const F& f) {
  constexpr uint64_t kBlocks = 32;                        // of four words
  constexpr int64_t kNumbers = (4 * kBlocks - 4) / each;  // up to 3 words come before the first
  uint32_t words[4 * kBlocks];
  for (int64_t i = begin; i < end; i += kNumbers) {
    const uint64_t first = offset + i * each;
    make_words<kBlocks>(seed, first / 4, words);
    f(i, std::min(kNumbers, end - i), words + first % 4);
  }
}

}  // namespace

void CpuBackend::uniform(uint64_t seed, uint64_t offset, double low, double high,
                         const Tensor& out) {
  visit_floating(out.dtype(), "uniform", [&]<class T>() {
    T* const y = out.mutable_data<T>();
    constexpr auto each = kUniformWords<T>;
    // scale_uniform() with its constants taken out of the loop.
    const T limit = static_cast<T>(high), last = std::nextafter(limit, static_cast<T>(low));
    const double width = high - low;
    const auto scaled = [=](T unit) {
      const T value = static_cast<T>(low + width * unit);
      return value < limit ? value : last;
    };
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      for_each_piece<each>(seed, offset, begin, end, [=](int64_t i, int64_t n, const uint32_t* w) {
        for (int64_t j = 0; j < n; ++j) {
          if constexpr (each == 1) {
            y[i + j] = scaled(unit_uniform(w[j]));
          } else {
            y[i + j] = scaled(unit_uniform(w[2 * j], w[2 * j + 1]));
          }
        }
      });
    });
  });
}

void CpuBackend::normal(uint64_t seed, uint64_t offset, double mean, double deviation,
                        const Tensor& out) {
  visit_floating(out.dtype(), "normal", [&]<class T>() {
    T* const y = out.mutable_data<T>();
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      for_each_piece<2>(seed, offset, begin, end, [=](int64_t i, int64_t n, const uint32_t* w) {
        for (int64_t j = 0; j < n; ++j) {
          y[i + j] = static_cast<T>(mean + deviation * unit_normal(w[2 * j], w[2 * j + 1]));
        }
      });
    });
  });
}

void CpuBackend::integers(uint64_t seed, uint64_t offset, int64_t low, uint64_t range,
                          const Tensor& out) {
  visit_dtype(out.dtype(), [&]<class T>() {
    T* const y = out.mutable_data<T>();
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      for_each_piece<kIntegerWords>(
          seed, offset, begin, end, [=](int64_t i, int64_t n, const uint32_t* w) {
            for (int64_t j = 0; j < n; ++j) {
              const uint64_t number = scale_integer(w[2 * j], w[2 * j + 1], range);
              y[i + j] = static_cast<T>(static_cast<uint64_t>(low) + number);
            }
          });
    });
  });
}

void CpuBackend::dropout(uint64_t seed, uint64_t offset, double p, const Tensor& in,
                         const Tensor& out) {
  visit_floating(out.dtype(), "dropout", [&]<class T>() {
    const T* const x = in.data<T>();
    T* const y = out.mutable_data<T>();
    const T scale = static_cast<T>(1 / (1 - p));
    const float least = static_cast<float>(p);
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      for_each_piece<1>(seed, offset, begin, end, [=](int64_t i, int64_t n, const uint32_t* w) {
        // In two loops, or the compiler would hide the product behind a branch.
        cpu::map_row(n, x + i, 1, y + i, 1, [scale](T value) { return value * scale; });
        cpu::map_row(n, y + i, 1, w, 1, y + i, 1, [least](T value, uint32_t word) {
          return unit_uniform(word) >= least ? value : T{0};
        });
      });
    });
  });
}

}  // namespace capstan
