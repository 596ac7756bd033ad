// Matrix products by Eigen, one single-threaded call a thread.
//
// The rows are cut at multiples of kUnit, and no part is smaller. Eigen then computes each element
// exactly as in one undivided call: it adds up along k in an order that depends on k alone, for
// rows in groups of 4 and a remainder. So here the cut may depend on the number of threads although
// the result must not; the tests hold Eigen to it.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/product.h"
#include "core/threads.h"

namespace capstan {
namespace {

constexpr int64_t kUnit = 48;

/// The number of parts for a product of m * k * n multiplications.
int64_t parts(int64_t m, int64_t k, int64_t n) {
  constexpr int64_t kEnough = 1 << 21;  // multiplications that pay for a thread: some 50 us
  const int64_t most = std::min(m / kUnit, m * k * n / kEnough);
  return std::clamp<int64_t>(most, 1, thread_count());
}

}  // namespace

void CpuBackend::matmul(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t m = out.size(0), n = out.size(1), k = a.size(1);
  visit_floating(out.dtype(), "matmul", [&]<class T>() {
    T* const product = out.mutable_data<T>();
    const cpu::Matrix<T> left{a.data<T>(), m, k, a.strides()[0], a.strides()[1]};
    const cpu::Matrix<T> right{b.data<T>(), k, n, b.strides()[0], b.strides()[1]};
    const int64_t count = parts(m, k, n);
    const auto cut = [&](int64_t i) { return i == count ? m : m * i / count / kUnit * kUnit; };
    parallel_for(count, 1, [&](int64_t i, int64_t) {
      cpu::multiply(left.middle_rows(cut(i), cut(i + 1)), right, product + cut(i) * n);
    });
  });
}

}  // namespace capstan
