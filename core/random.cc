// Generator, and the tensors filled with random numbers.
#include "core/random.h"

#include <numeric>

#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

Generator Generator::fork(uint64_t stream) const {
  // The counters of a stream's own words have zeros in their upper half; a one there gives words
  // that the stream itself never reaches.
  const auto words =
      philox({static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 1, 0},
             {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return Generator(uint64_t{words[1]} << 32 | words[0]);
}

uint64_t Generator::next() {
  const uint64_t index = advance(2);
  return uint64_t{random_word(seed_, index + 1)} << 32 | random_word(seed_, index);
}

// Lemire ("Fast random integer generation in an interval", 2019): the high half of word * bound is
// uniform once the few low halves are refused that would favour some results.
uint64_t Generator::below(uint64_t bound) {
  if (bound == 0) raise<ValueError>("[below] bound must be at least 1, got 0");
  const uint64_t refused = -bound % bound;  // 2^64 mod bound
  for (;;) {
    const auto product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<uint64_t>(product) >= refused) return static_cast<uint64_t>(product >> 64);
  }
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = Generator(seed); }

Tensor rand(const Shape& shape, double low, double high, TensorOptions options,
            Generator& generator) {
  if (!(low < high) || !std::isfinite(high - low)) {
    raise<ValueError>("[rand] low must be below high and both finite, got {} and {}", low, high);
  }
  check_floating("rand", options.dtype);
  const uint64_t words = visit_floating(compute_dtype(options.dtype), "rand",
                                        []<class T>() { return kUniformWords<T>; });
  const Tensor out = empty(shape, options);
  backend(out).uniform(generator.seed(), generator.advance(out.numel() * words), low, high, out);
  return out;
}

Tensor randn(const Shape& shape, double mean, double deviation, TensorOptions options,
             Generator& generator) {
  if (!(deviation >= 0) || !std::isfinite(deviation) || !std::isfinite(mean)) {
    raise<ValueError>(
        "[randn] deviation must be at least 0 and both finite, got mean {} and deviation {}", mean,
        deviation);
  }
  check_floating("randn", options.dtype);
  const Tensor out = empty(shape, options);
  backend(out).normal(generator.seed(), generator.advance(out.numel() * kNormalWords), mean,
                      deviation, out);
  return out;
}

Tensor randint(const Shape& shape, int64_t low, int64_t high, TensorOptions options,
               Generator& generator) {
  const auto fits = [&]<class T>() -> bool {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return low >= std::numeric_limits<T>::min() && high - 1 <= std::numeric_limits<T>::max();
    }
    wrong_dtype("randint", "int64, int32 or uint8", options.dtype);
  };
  if (low >= high || !visit_dtype(options.dtype, fits)) {
    raise<ValueError>("[randint] low must be below high and {} hold both, got {} and {}",
                      options.dtype, low, high);
  }
  const Tensor out = empty(shape, options);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  backend(out).integers(generator.seed(), generator.advance(out.numel() * kIntegerWords), low,
                        range, out);
  return out;
}

Tensor randperm(int64_t count, Generator& generator) {
  return from_vector(random_permutation(count, generator), {count});
}

Tensor bernoulli(const Tensor& p, Generator& generator) {
  check_floating("bernoulli", p.dtype());
  if (p.device().kind != Device::Kind::meta) {
    for (const double probability : p.to_vector<double>()) {
      if (!(probability >= 0 && probability <= 1)) {
        raise<ValueError>("[bernoulli] probabilities lie in [0, 1], got {}", probability);
      }
    }
  }
  const TensorOptions wide{compute_dtype(p.dtype()), p.device()};
  const Tensor chance = rand(p.shape(), 0, 1, wide, generator), limit = empty(p.shape(), wide);
  copy_elements(p, limit);
  const Tensor hit = empty(p.shape(), {Dtype::boolean, p.device()}), out = empty_like(p);
  backend(limit).compare(Compare::less, chance, limit, hit);
  copy_elements(hit, out);
  return out;
}

std::vector<int64_t> random_permutation(int64_t count, Generator& generator) {
  if (count < 0)
    raise<ValueError>("[random_permutation] count must not be negative, got {}", count);
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[generator.below(i + 1)]);
  return order;
}

}  // namespace capstan
