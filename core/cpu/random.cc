// Random tensors from Philox words; see core/random.h for what one number is made of.
#include "core/random.h"

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

/// Calls f(i, w) for i in [begin, end), where w points to the `each` words of number i: those from
/// offset + i * each on. Words are made in batches of a fixed size, which compiles to vector code.
template <uint64_t each, class F>
void for_each_number(uint64_t seed, uint64_t offset, int64_t begin, int64_t end, const F& f) {
  constexpr int64_t kNumbers = 60 / each;
  constexpr uint64_t kBlocks = 16;  // of four words: 60, and up to 3 before the first
  std::array<uint32_t, 4> blocks[kBlocks];
  for (int64_t i = begin; i < end; i += kNumbers) {
    const uint64_t first = offset + i * each;
    for (uint64_t k = 0; k < kBlocks; ++k) blocks[k] = random_block(seed, first / 4 + k);
    const uint32_t* const words = blocks[0].data() + first % 4;
    const int64_t count = std::min(kNumbers, end - i);
    for (int64_t j = 0; j < count; ++j) f(i + j, words + j * each);
  }
}

}  // namespace

void CpuBackend::uniform(uint64_t seed, uint64_t offset, double low, double high,
                         const Tensor& out) {
  visit_floating(out.dtype(), "uniform", [&]<class T>() {
    T* const y = out.mutable_data<T>();
    parallel_for(out.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      for_each_number<kUniformWords<T>>(seed, offset, begin, end, [&](int64_t i, const uint32_t* w) {
        if constexpr (sizeof(T) == 4) {
          y[i] = scale_uniform(unit_uniform(w[0]), low, high);
        } else {
          y[i] = scale_uniform(unit_uniform(w[0], w[1]), low, high);
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
      for_each_number<kNormalWords>(seed, offset, begin, end, [&](int64_t i, const uint32_t* w) {
        y[i] = static_cast<T>(mean + deviation * unit_normal(w[0], w[1]));
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
      for_each_number<1>(seed, offset, begin, end, [&](int64_t i, const uint32_t* w) {
        y[i] = unit_uniform(w[0]) >= least ? x[i] * scale : T{0};
      });
    });
  });
}

}  // namespace capstan
