// Normalisation to mean 0 and variance 1, the kernel of layer, group, instance and batch norm, and
// without the mean of RMS norm. Each group is one thread's, its sums taken in a fixed order.
#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/fold.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

/// Where the elements of each group of a dense [outer, groups, inner] lie: in runs of equal step.
struct Groups {
  int64_t groups, runs, run_step, length, step, group_step;

  explicit Groups(const Tensor& x)
      : groups(x.size(1)),
        runs(x.size(0)),
        run_step(x.size(1) * x.size(2)),
        length(x.size(2)),
        step(1),
        group_step(x.size(2)) {
    if (length != 1) return;
    length = std::exchange(runs, 1);  // one long run instead of many of one element
    step = groups;
  }

  int64_t elements() const { return runs * length; }
  /// Groups that a thread takes at once.
  int64_t grain() const {
    return std::max<int64_t>(1, cpu::kGrain / 4 / std::max<int64_t>(1, elements()));
  }

  /// Calls f(place, count) for the pieces of a group: elements place, place + step, ...
  template <class F>
  void for_each_piece(int64_t group, const F& f) const {
    for (int64_t run = 0; run < runs; ++run) {
      const int64_t first = group * group_step + run * run_step;
      for (int64_t j = 0; j < length; j += kPiece) {
        f(first + j * step, std::min(kPiece, length - j));
      }
    }
  }

  /// The mean over a group of what term(place, count, to) writes to `to`.
  template <class T, class Term>
  double mean(int64_t group, const Term& term) const {
    alignas(64) T terms[kPiece];
    double sum = 0;
    for_each_piece(group, [&](int64_t place, int64_t count) {
      term(place, count, terms);
      sum += cpu::fold_row<cpu::Sum<T>>(terms, count, 1);
    });
    return sum / static_cast<double>(elements());
  }

  static constexpr int64_t kPiece = 512;
};

}  // namespace

void CpuBackend::normalize(const Tensor& x, bool center, double epsilon, const Tensor& out,
                           const Tensor& stats) {
  const Groups g(x);
  visit_floating(x.dtype(), "normalize", [&]<class T>() {
    const T* const in = x.data<T>();
    T* const result = out.mutable_data<T>();
    T* const kept = stats.mutable_data<T>();
    parallel_for(g.groups, g.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T mean = 0;
        if (center) {
          mean = static_cast<T>(g.mean<T>(i, [&](int64_t at, int64_t count, T* to) {
            cpu::map_row(count, in + at, g.step, to, 1, [](T value) { return value; });
          }));
        }
        const double variance = g.mean<T>(i, [&](int64_t at, int64_t count, T* to) {
          cpu::map_row(count, in + at, g.step, to, 1,
                       [mean](T value) { return (value - mean) * (value - mean); });
        });
        kept[2 * i] = mean;
        kept[2 * i + 1] = static_cast<T>(variance);
        const T scale = static_cast<T>(1 / std::sqrt(variance + epsilon));
        g.for_each_piece(i, [&](int64_t at, int64_t count) {
          cpu::map_row(count, in + at, g.step, result + at, g.step,
                       [=](T value) { return (value - mean) * scale; });
        });
      }
    });
  });
}

// With y = (x - mean) * scale:  d x = scale * (d y - mean(d y) - y * mean(d y * y)).
void CpuBackend::normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats,
                                bool center, double epsilon, const Tensor& x_grad) {
  const Groups g(x);
  visit_floating(x.dtype(), "normalize", [&]<class T>() {
    const T* const in = x.data<T>();
    const T* const slopes = grad.data<T>();
    const T* const kept = stats.data<T>();
    T* const result = x_grad.mutable_data<T>();
    parallel_for(g.groups, g.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T mean = kept[2 * i];
        const T scale = static_cast<T>(1 / std::sqrt(kept[2 * i + 1] + epsilon));
        T shift = 0;
        if (center) {
          shift = static_cast<T>(g.mean<T>(i, [&](int64_t at, int64_t count, T* to) {
            cpu::map_row(count, slopes + at, g.step, to, 1, [](T value) { return value; });
          }));
        }
        const T stretch = static_cast<T>(g.mean<T>(i, [&](int64_t at, int64_t count, T* to) {
          cpu::map_row(count, slopes + at, g.step, in + at, g.step, to, 1,
                       [=](T slope, T value) { return slope * ((value - mean) * scale); });
        }));
        g.for_each_piece(i, [&](int64_t at, int64_t count) {
          cpu::map_row(count, slopes + at, g.step, in + at, g.step, result + at, g.step,
                       [=](T slope, T value) {
                         return scale * (slope - shift - (value - mean) * scale * stretch);
                       });
        });
      }
    });
  });
}

}  // namespace capstan
