// Softmax and cross-entropy along rows, computed relative to the row's maximum so that no
// exponential overflows:
//   log sum exp(x) = max + log(sum exp(x - max))
#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/fold.h"
#include "core/cpu/loop.h"
#include "core/cpu/vector_math.h"

namespace capstan {
namespace {

/// Calls f(begin, count, e) for consecutive pieces of a row, with e[j] = exp(row[begin + j] -
/// shift).
template <class T, class F>
void for_each_exp(const T* row, int64_t classes, T shift, const F& f) {
  constexpr int64_t kPiece = 256;
  alignas(64) T e[kPiece];
  for (int64_t begin = 0; begin < classes; begin += kPiece) {
    const int64_t count = std::min(kPiece, classes - begin);
    cpu::map_row(count, row + begin, 1, e, 1, [shift](T x) { return x - shift; });
    cpu::transform<formulas::Exp>(count, e, 1, e, 1);
    f(begin, count, e);
  }
}

/// log sum exp of a row in two parts, apart because their sum would round away what a large maximum
/// leaves of the second. NaN if the row holds one.
template <class T>
struct LogSumExp {
  T most, rest;
};

template <class T>
LogSumExp<T> log_sum_exp(const T* row, int64_t classes) {
  const T most = cpu::fold_row<cpu::Max<T>>(row, classes, 1);
  double sum = 0;
  for_each_exp(row, classes, most, [&](int64_t, int64_t count, const T* e) {
    sum += cpu::fold_row<cpu::Sum<T>>(e, count, 1);
  });
  return {most, static_cast<T>(std::log(sum))};
}

/// Rows a thread takes at once.
int64_t grain(int64_t classes) {
  return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, classes));
}

}  // namespace

void CpuBackend::log_softmax(const Tensor& in, const Tensor& out) {
  const int64_t rows = in.size(0), classes = in.size(1);
  visit_floating(in.dtype(), "log_softmax", [&]<class T>() {
    const T* const x = in.data<T>();
    T* const y = out.mutable_data<T>();
    if (classes == 0) return;
    parallel_for(rows, grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto sum = log_sum_exp(x + i * classes, classes);
        cpu::map_row(classes, x + i * classes, 1, y + i * classes, 1,
                     [sum](T value) { return value - sum.most - sum.rest; });
      }
    });
  });
}

// d x = d y - softmax(x) * sum(d y), and softmax(x) = exp(y).
void CpuBackend::log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) {
  const int64_t rows = out.size(0), classes = out.size(1);
  visit_floating(out.dtype(), "log_softmax", [&]<class T>() {
    const T* const dy = grad.data<T>();
    const T* const y = out.data<T>();
    T* const dx = in_grad.mutable_data<T>();
    parallel_for(rows, grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* const row = dy + i * classes;
        T* const result = dx + i * classes;
        const T total = static_cast<T>(cpu::fold_row<cpu::Sum<T>>(row, classes, 1));
        for_each_exp(y + i * classes, classes, T{0}, [&](int64_t at, int64_t count, const T* e) {
          cpu::map_row(count, row + at, 1, e, 1, result + at, 1,
                       [total](T slope, T p) { return slope - p * total; });
        });
      }
    });
  });
}

void CpuBackend::cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore,
                               const Tensor& losses, const Tensor& log_sums) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    const T* const x = logits.data<T>();
    const int64_t* const target = targets.data<int64_t>();
    T* const loss = losses.mutable_data<T>();
    T* const sums = log_sums.mutable_data<T>();
    parallel_for(rows, grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[2 * i] = sums[2 * i + 1] = loss[i] = T{0};
        if (target[i] == ignore) continue;
        const auto sum = log_sum_exp(x + i * classes, classes);
        sums[2 * i] = sum.most;
        sums[2 * i + 1] = sum.rest;
        loss[i] = sum.most - x[i * classes + target[i]] + sum.rest;
      }
    });
  });
}

void CpuBackend::cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& targets,
                                    int64_t ignore, const Tensor& log_sums,
                                    const Tensor& logits_grad) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  visit_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    const T* const g = grad.data<T>();
    const T* const x = logits.data<T>();
    const int64_t* const target = targets.data<int64_t>();
    const T* const sums = log_sums.data<T>();
    T* const dx = logits_grad.mutable_data<T>();
    parallel_for(rows, grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* const row = dx + i * classes;
        if (target[i] == ignore) {
          std::fill_n(row, classes, T{0});
          continue;
        }
        const T most = sums[2 * i], scale = g[i] * std::exp(-sums[2 * i + 1]);
        for_each_exp(x + i * classes, classes, most, [&](int64_t at, int64_t count, const T* e) {
          cpu::map_row(count, e, 1, row + at, 1, [scale](T value) { return value * scale; });
        });
        row[target[i]] -= g[i];
      }
    });
  });
}

}  // namespace capstan
