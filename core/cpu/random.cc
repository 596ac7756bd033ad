// Random tensors from Philox words; see core/random.h for what one number is made of.
#include "core/random.h"

#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/cpu/words.h"

namespace capstan {

using cpu::for_each_piece;

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

void CpuBackend::dropout(uint64_t seed, uint64_t offset, const Layout& place, double p,
                         const Tensor& in, const Tensor& out) {
  // Rows of elements that are neighbours in the whole tensor too: all of it, as a rule.
  const Layout dense = Layout::dense(place.shape);
  cpu::Nest<2> rows = cpu::make_nest<2>({&dense, &place});
  int64_t length = 1;
  if (rows.rank > 0 && rows.strides[rows.rank - 1][1] == 1) length = rows.sizes[--rows.rank];
  offset += place.offset;
  visit_floating(out.dtype(), "dropout", [&]<class T>() {
    const T* const x = in.data<T>();
    T* const y = out.mutable_data<T>();
    const T scale = static_cast<T>(1 / (1 - p));
    const float least = static_cast<float>(p);
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      rows.walk(begin / length, (end + length - 1) / length, [&](int64_t row, const auto& at) {
        const int64_t first = std::max(begin, row * length);
        const int64_t last = std::min(end, (row + 1) * length);
        const uint64_t shift = offset + at[1] - row * length;  // from an element to its word
        for_each_piece<1>(seed, shift, first, last, [=](int64_t i, int64_t n, const uint32_t* w) {
          // In two loops, or the compiler would hide the product behind a branch.
          cpu::map_row(n, x + i, 1, y + i, 1, [scale](T value) { return value * scale; });
          cpu::map_row(n, y + i, 1, w, 1, y + i, 1, [least](T value, uint32_t word) {
            return unit_uniform(word) >= least ? value : T{0};
          });
        });
      });
    });
  });
}

}  // namespace capstan
