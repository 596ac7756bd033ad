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
constexpr int64_t kEnough = 1 << 21;  // multiplications that pay for a thread: some 50 us

/// The number of parts for a product of m * k * n multiplications.
int64_t parts(int64_t m, int64_t k, int64_t n) {
  const int64_t most = std::min(m / kUnit, m * k * n / kEnough);
  return std::clamp<int64_t>(most, 1, thread_count());
}

/// `x` with the axis of a batch in front, of size 1 if it has none.
Layout batch_of(const Tensor& x) { return x.rank() == 3 ? x.layout() : x.layout().unsqueezed(0); }

template <class T>
cpu::Matrix<T> matrix(const Tensor& x, const Layout& batch, int64_t i) {
  return {x.data<T>() + i * batch.strides[0], batch.shape[1], batch.shape[2], batch.strides[1],
          batch.strides[2]};
}

}  // namespace

void CpuBackend::matmul(const Tensor& a, const Tensor& b, const Tensor& out) {
  const Layout lefts = batch_of(a), rights = batch_of(b), products = batch_of(out);
  const int64_t batch = products.shape[0], m = products.shape[1], n = products.shape[2];
  const int64_t k = lefts.shape[2], work = std::max<int64_t>(1, m * k * n);
  visit_floating(out.dtype(), "matmul", [&]<class T>() {
    T* const product = out.mutable_data<T>();
    // A batch is cut between its products, and these as well only where they are few.
    const int64_t count = batch < thread_count() ? parts(m, k, n) : 1;
    const auto cut = [&](int64_t i) { return i == count ? m : m * i / count / kUnit * kUnit; };
    const int64_t grain = count > 1 ? 1 : std::max<int64_t>(1, kEnough / work);
    parallel_for(batch * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / count, part = task % count;
        cpu::multiply(matrix<T>(a, lefts, i).middle_rows(cut(part), cut(part + 1)),
                      matrix<T>(b, rights, i), product + (i * m + cut(part)) * n);
      }
    });
  });
}

}  // namespace capstan
