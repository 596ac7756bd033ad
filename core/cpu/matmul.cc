// Matrix products by Eigen, one single-threaded call a tile. Tiles are groups of rows fixed by the
// shape, so the result does not depend on the number of threads.
#include "core/cpu/product.h"

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

/// Rows a tile: at most 8 tiles, since each packs the other matrix again, and none with less than
/// about a millisecond's work.
int64_t tile_rows(int64_t m, int64_t k, int64_t n) {
  constexpr int64_t kWork = 1 << 24, kTiles = 8, kUnit = 48;
  const int64_t enough = kWork / std::max<int64_t>(1, k * n);
  const int64_t rows = std::max(enough, (m + kTiles - 1) / kTiles);
  return (rows + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

void CpuBackend::matmul(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t m = out.size(0), n = out.size(1), k = a.size(1);
  visit_floating(out.dtype(), "matmul", [&]<class T>() {
    T* const product = out.mutable_data<T>();
    const cpu::Matrix<T> left{a.data<T>(), m, k, a.strides()[0], a.strides()[1]};
    const cpu::Matrix<T> right{b.data<T>(), k, n, b.strides()[0], b.strides()[1]};
    parallel_for(m, tile_rows(m, k, n), [&](int64_t begin, int64_t end) {
      cpu::multiply(left.middle_rows(begin, end), right, product + begin * n);
    });
  });
}

}  // namespace capstan
