// Connectionist temporal classification (Graves et al., ICML 2006, section 4), in logarithms and
// float64. The labels l are padded with blanks, l' = _ l1 _ l2 _ ... of length 2 |l| + 1, and
//   alpha(t, s)  log of the probability that frames 0 to t end at l'_s
//   beta(t, s)   log of the probability that frames t + 1, ... lead from l'_s to the end
// A path stays at s, or goes on by one, or by two unless that skips a blank between equal labels.
// So alpha(t, s) + beta(t, s) + loss is the log of the posterior probability of being at s at time
// t, and the gradient by log_p(t, k) is minus the sum of these over the s with l'_s = k.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/cpu_backend.h"
#include "core/threads.h"

namespace capstan {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// log(exp(a) + exp(b) + exp(c)); NaN if one is.
double log_sum(double a, double b, double c) {
  const double most = std::max(a, std::max(b, c));
  if (most == kNever) return a + b + c;  // -inf, or the NaN that max() passed over
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// One sequence of the batch.
template <class T>
struct Sequence {
  const T* log_p;      // of frame 0
  int64_t frame_step;  // to the next frame
  const int64_t* target;
  int64_t frames, labels, blank;

  int64_t size() const { return 2 * labels + 1; }
  /// l'_s
  int64_t label(int64_t s) const { return s % 2 ? target[s / 2] : blank; }
  double at(int64_t t, int64_t s) const {
    return static_cast<double>(log_p[t * frame_step + label(s)]);
  }
  /// True if a path may go from s - 2 to s.
  bool skips(int64_t s) const { return s % 2 && s >= 3 && target[s / 2] != target[s / 2 - 1]; }
};

/// Calls f(i, sequence) for all sequences, on several threads.
template <class T, class F>
void for_each_sequence(const Tensor& log_p, const Tensor& targets, const CtcLengths& lengths,
                       int64_t blank, const F& f) {
  const int64_t batch = log_p.size(1), classes = log_p.size(2);
  parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      f(i, Sequence<T>{log_p.data<T>() + i * classes, batch * classes,
                       targets.data<int64_t>() + i * targets.size(1), lengths.inputs[i],
                       lengths.targets[i], blank});
    }
  });
}

/// Fills alpha [frames, step] and gives the loss.
template <class T>
double forward(const Sequence<T>& x, double* alpha, int64_t step) {
  if (x.frames == 0) return x.labels == 0 ? 0 : -kNever;
  const int64_t size = x.size();
  for (int64_t s = 0; s < size; ++s) alpha[s] = s < 2 ? x.at(0, s) : kNever;
  for (int64_t t = 1; t < x.frames; ++t) {
    const double* const last = alpha + (t - 1) * step;
    for (int64_t s = 0; s < size; ++s) {
      alpha[t * step + s] = x.at(t, s) + log_sum(last[s], s >= 1 ? last[s - 1] : kNever,
                                                 x.skips(s) ? last[s - 2] : kNever);
    }
  }
  const double* const last = alpha + (x.frames - 1) * step;
  return -log_sum(last[size - 1], size >= 2 ? last[size - 2] : kNever, kNever);
}

}  // namespace

void CpuBackend::ctc_loss(const Tensor& log_p, const Tensor& targets, const CtcLengths& lengths,
                          int64_t blank, const Tensor& losses, const Tensor& alphas) {
  visit_floating(log_p.dtype(), "ctc_loss", [&]<class T>() {
    T* const loss = losses.mutable_data<T>();
    double* const kept = alphas.mutable_data<double>();
    const int64_t step = alphas.size(2), rows = alphas.size(1);
    for_each_sequence<T>(log_p, targets, lengths, blank, [&](int64_t i, const Sequence<T>& x) {
      loss[i] = static_cast<T>(forward(x, kept + i * rows * step, step));
    });
  });
}

void CpuBackend::ctc_loss_grad(const Tensor& grad, const Tensor& log_p, const Tensor& targets,
                               const CtcLengths& lengths, int64_t blank, const Tensor& losses,
                               const Tensor& alphas, const Tensor& log_p_grad) {
  const int64_t frames = log_p.size(0), batch = log_p.size(1), classes = log_p.size(2);
  visit_floating(log_p.dtype(), "ctc_loss", [&]<class T>() {
    const T *const slopes = grad.data<T>(), *const loss = losses.data<T>();
    T* const out = log_p_grad.mutable_data<T>();
    const int64_t step = alphas.size(2);
    for_each_sequence<T>(log_p, targets, lengths, blank, [&](int64_t i, const Sequence<T>& x) {
      const double slope = static_cast<double>(slopes[i]);
      // Neither has an infinite loss a gradient, nor does one that nobody asks for give any.
      const double start = slope == 0 ? 0 : loss[i] == -kNever ? std::nan("") : 0;
      for (int64_t t = 0; t < frames; ++t) {
        std::fill_n(out + (t * batch + i) * classes, classes,
                    static_cast<T>(t < x.frames ? start : 0));
      }
      if (x.frames == 0 || slope == 0 || std::isnan(start)) return;

      const int64_t size = x.size();
      const double* const alpha = alphas.data<double>() + i * frames * step;
      const double* const end = alpha + (x.frames - 1) * step;
      // Of the loss as it was before it was rounded to T.
      const double total = log_sum(end[size - 1], size >= 2 ? end[size - 2] : kNever, kNever);
      std::vector<double> beta(size, kNever), next(size), sums(classes);
      for (int64_t s = std::max<int64_t>(0, size - 2); s < size; ++s) beta[s] = 0;
      for (int64_t t = x.frames - 1; t >= 0; --t) {
        std::fill(sums.begin(), sums.end(), 0);
        for (int64_t s = 0; s < size; ++s) {
          sums[x.label(s)] += std::exp(alpha[t * step + s] + beta[s] - total);
        }
        T* const row = out + (t * batch + i) * classes;
        for (int64_t k = 0; k < classes; ++k) row[k] = static_cast<T>(-slope * sums[k]);
        if (t == 0) break;
        for (int64_t s = 0; s < size; ++s) next[s] = beta[s] + x.at(t, s);  // entering s at time t
        for (int64_t s = 0; s < size; ++s) {
          beta[s] = log_sum(next[s], s + 1 < size ? next[s + 1] : kNever,
                            s + 2 < size && x.skips(s + 2) ? next[s + 2] : kNever);
        }
      }
    });
  });
}

}  // namespace capstan
