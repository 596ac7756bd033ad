// Defines what the kernels' tests share: inputs of any layout, and comparison with values that a
// test works out in float64, element by element.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/backend.h"
#include "core/threads.h"

namespace capstan::testing {

inline Backend& cpu() { return backend(Device::cpu()); }

/// Numbers in [-2, 2), different for each seed; whole numbers for integer dtypes, and both bools.
inline Tensor some_values(const Shape& shape, Dtype dtype = Dtype::float32, uint32_t seed = 1) {
  std::vector<double> values(numel(shape));
  uint64_t state = seed * 2654435761u + 12345;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(state >> 40) / (1 << 22) - 2;
    if (dtype == Dtype::boolean)
      value = value > 0;
    else if (!is_floating(dtype))
      value = std::floor(value * 5 + (dtype == Dtype::uint8 ? 10 : 0));
  }
  const Tensor tensor = empty(shape, {.dtype = dtype});
  copy_elements(from_vector(values, shape), tensor);
  return tensor;
}

/// Tensors of `shape` that lie differently in memory: dense, transposed, with gaps, shifted by one
/// element, and repeated along one axis.
inline std::vector<Tensor> layouts(const Shape& shape, Dtype dtype = Dtype::float32,
                                   uint32_t seed = 1) {
  std::vector<Tensor> out = {some_values(shape, dtype, seed)};
  if (shape.empty()) return out;
  const int last = shape.rank() - 1;
  Shape turned = shape, wide = shape, once = shape;
  std::swap(turned[0], turned[last]);
  const Tensor from = some_values(turned, dtype, seed + 1);
  out.push_back(view_of(from, from.layout().transposed(0, last)));
  wide[last] = 2 * shape[last] + 1;
  const Tensor gaps = some_values(wide, dtype, seed + 2);
  out.push_back(view_of(gaps, gaps.layout().sliced(last, 1, wide[last], 2)));
  out.push_back(view_of(gaps, gaps.layout().sliced(last, 1, shape[last] + 1)));
  for (const int axis : {0, last}) {
    once = shape;
    once[axis] = 1;
    const Tensor single = some_values(once, dtype, seed + 3);
    out.push_back(view_of(single, single.layout().expanded(shape)));
  }
  return out;
}

/// Largest |got - expected| / max(1, |expected|); equal infinities and a NaN for a NaN count as 0.
inline double error_of(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> values = got.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))) continue;
    const double error = std::abs(values[i] - expected[i]) / std::max(1.0, std::abs(expected[i]));
    worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
  }
  return worst;
}

/// Rounding that a few operations in `dtype` may add up to.
inline double tolerance(Dtype dtype) { return dtype == Dtype::float64 ? 1e-14 : 1e-6; }

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || std::memcmp(a.address(), b.address(), a.bytes()) == 0);
}

/// Checks that `compute`, which returns a dense tensor, gives the same bits on 1, 2, 3 and 5
/// threads.
inline void check_threads(const std::function<Tensor()>& compute) {
  const int before = thread_count();
  set_thread_count(1);
  const Tensor expected = compute();
  for (const int threads : {2, 3, 5}) {
    set_thread_count(threads);
    CHECK(same_bits(compute(), expected));
  }
  set_thread_count(before);
}

/// Calls f(index) for every index of `shape` in row-major order.
inline void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& f) {
  if (numel(shape) == 0) return;
  Dims index = Dims::filled(shape.rank(), 0);
  for (;;) {
    f(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

inline const Dtype kFloating[] = {Dtype::float32, Dtype::float64};
inline const Dtype kNumeric[] = {Dtype::float32, Dtype::float64, Dtype::int64, Dtype::int32,
                                 Dtype::uint8};

}  // namespace capstan::testing
