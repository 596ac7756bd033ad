// Each kernel of HalfBackend: inputs widened to float32, CpuBackend's kernel, results rounded.
#include "core/cpu/half_backend.h"

namespace capstan {
namespace {

/// A dense float32 copy of an input, in which an axis of stride 0 keeps it: what was broadcast is
/// widened once, and a kernel sees the repetition it was promised.
Tensor widened(const Tensor& half) {
  Layout once = half.layout();
  for (int axis = 0; axis < half.rank(); ++axis) {
    if (once.strides[axis] == 0 && once.shape[axis] > 1) once.shape[axis] = 1;
  }
  const Tensor wide = empty(once.shape, {Dtype::float32, half.device()});
  copy_elements(view_of(half, once), wide);
  return once.shape == half.shape() ? wide : view_of(wide, wide.layout().expanded(half.shape()));
}

/// A float32 tensor for a kernel to write, whose elements are rounded into `half` in the end.
class Rounded {
 public:
  enum Start { unset, as_is };  // as_is: the kernel adds to what `half` holds

  explicit Rounded(const Tensor& half, Start start = unset)
      : half_(half), wide_(empty(half.shape(), {Dtype::float32, half.device()})) {
    if (start == as_is) copy_elements(half, wide_);
  }
  ~Rounded() { copy_elements(wide_, half_); }
  Rounded(const Rounded&) = delete;

  operator const Tensor&() const { return wide_; }

 private:
  const Tensor& half_;
  Tensor wide_;
};

AttentionRules widened(AttentionRules rules) {
  if (rules.mask.defined()) rules.mask = widened(rules.mask);
  return rules;
}

}  // namespace

void HalfBackend::matmul(const Tensor& a, const Tensor& b, const Tensor& out) {
  CpuBackend::matmul(widened(a), widened(b), Rounded(out));
}

void HalfBackend::add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) {
  CpuBackend::add_rows(widened(rows), indices, Rounded(out, Rounded::as_is));
}

void HalfBackend::scatter(const Tensor& in, int axis, const Tensor& indices, const Tensor& out,
                          bool add) {
  if (!add) return CpuBackend::scatter(in, axis, indices, out, false);
  CpuBackend::scatter(widened(in), axis, indices, Rounded(out, Rounded::as_is), true);
}

int64_t HalfBackend::cholesky(const Tensor& a, const Tensor& lower) {
  return CpuBackend::cholesky(widened(a), Rounded(lower));
}

int64_t HalfBackend::solve(const Tensor& a, const Tensor& b, const Tensor& x) {
  return CpuBackend::solve(widened(a), widened(b), Rounded(x));
}

void HalfBackend::qr(const Tensor& a, const Tensor& q, const Tensor& r) {
  CpuBackend::qr(widened(a), Rounded(q), Rounded(r));
}

void HalfBackend::svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) {
  CpuBackend::svd(widened(a), Rounded(u), Rounded(s), Rounded(v));
}

int64_t HalfBackend::eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) {
  return CpuBackend::eigh(widened(a), Rounded(values), Rounded(vectors));
}

void HalfBackend::log_softmax(const Tensor& in, const Tensor& out) {
  CpuBackend::log_softmax(widened(in), Rounded(out));
}

void HalfBackend::log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) {
  CpuBackend::log_softmax_grad(widened(grad), widened(out), Rounded(in_grad));
}

void HalfBackend::cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore,
                                const Tensor& losses, const Tensor& log_sums) {
  CpuBackend::cross_entropy(widened(logits), targets, ignore, Rounded(losses), log_sums);
}

void HalfBackend::cross_entropy_grad(const Tensor& grad, const Tensor& logits,
                                     const Tensor& targets, int64_t ignore, const Tensor& log_sums,
                                     const Tensor& logits_grad) {
  CpuBackend::cross_entropy_grad(widened(grad), widened(logits), targets, ignore, log_sums,
                                 Rounded(logits_grad));
}

void HalfBackend::normalize(const Tensor& x, bool center, double epsilon, const Tensor& out,
                            const Tensor& stats) {
  CpuBackend::normalize(widened(x), center, epsilon, Rounded(out), stats);
}

void HalfBackend::normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats,
                                 bool center, double epsilon, const Tensor& x_grad) {
  CpuBackend::normalize_grad(widened(grad), widened(x), stats, center, epsilon, Rounded(x_grad));
}

void HalfBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionRules& rules, const Tensor& out,
                            const Tensor& log_sums) {
  CpuBackend::attention(widened(q), widened(k), widened(v), widened(rules), Rounded(out), log_sums);
}

void HalfBackend::attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const AttentionRules& rules, const Tensor& out,
                                 const Tensor& log_sums, const Tensor& q_grad, const Tensor& k_grad,
                                 const Tensor& v_grad) {
  CpuBackend::attention_grad(widened(grad), widened(q), widened(k), widened(v), widened(rules),
                             widened(out), log_sums, Rounded(q_grad), Rounded(k_grad),
                             Rounded(v_grad));
}

void HalfBackend::conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                         const Window2d& window, const Tensor& out) {
  const Tensor wide = bias ? widened(*bias) : Tensor();
  CpuBackend::conv2d(widened(x), widened(weight), bias ? &wide : nullptr, window, Rounded(out));
}

void HalfBackend::conv2d_input_grad(const Tensor& grad, const Tensor& weight,
                                    const Window2d& window, const Tensor& x_grad) {
  CpuBackend::conv2d_input_grad(widened(grad), widened(weight), window, Rounded(x_grad));
}

void HalfBackend::conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window,
                                     const Tensor& weight_grad) {
  CpuBackend::conv2d_weight_grad(widened(grad), widened(x), window, Rounded(weight_grad));
}

void HalfBackend::max_pool2d(const Tensor& x, const Window2d& window, const Tensor& out,
                             const Tensor& chosen) {
  CpuBackend::max_pool2d(widened(x), window, Rounded(out), chosen);
}

void HalfBackend::max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) {
  CpuBackend::max_pool2d_grad(widened(grad), chosen, Rounded(x_grad));
}

void HalfBackend::uniform(uint64_t seed, uint64_t offset, double low, double high,
                          const Tensor& out) {
  CpuBackend::uniform(seed, offset, low, high, Rounded(out));
  // Rounding may reach `high`, which is not in the interval.
  visit_dtype(out.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, compute_type<T>>) {
      const T limit{static_cast<float>(high)};
      const Tensor largest = empty({}, {out.dtype(), out.device()});
      *largest.mutable_data<T>() = limit < static_cast<float>(high) ? limit : next_below(limit);
      binary(Binary::minimum, out, view_of(largest, largest.layout().expanded(out.shape())), out);
    }
  });
}

void HalfBackend::normal(uint64_t seed, uint64_t offset, double mean, double deviation,
                         const Tensor& out) {
  CpuBackend::normal(seed, offset, mean, deviation, Rounded(out));
}

void HalfBackend::dropout(uint64_t seed, uint64_t offset, const Layout& place, double p,
                          const Tensor& in, const Tensor& out) {
  CpuBackend::dropout(seed, offset, place, p, widened(in), Rounded(out));
}

}  // namespace capstan
