// Defines HalfBackend, the CPU's kernels for float16 and bfloat16.
//
// Kernels that look at each element a few times (element-wise functions, reductions, copies)
// convert it on the way in and out, and are CpuBackend's own. The others run CpuBackend's float32
// kernel on widened copies: what that costs is small beside their arithmetic, and no kernel has to
// be written twice.
#pragma once

#include "core/cpu/cpu_backend.h"

namespace capstan {

class HalfBackend final : public CpuBackend {
 public:
  void matmul(const Tensor& a, const Tensor& b, const Tensor& out) override;

  void add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) override;
  void scatter(const Tensor& in, int axis, const Tensor& indices, const Tensor& out,
               bool add) override;

  int64_t cholesky(const Tensor& a, const Tensor& lower) override;
  int64_t solve(const Tensor& a, const Tensor& b, const Tensor& x) override;
  void qr(const Tensor& a, const Tensor& q, const Tensor& r) override;
  void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) override;
  int64_t eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) override;

  void log_softmax(const Tensor& in, const Tensor& out) override;
  void log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore,
                     const Tensor& losses, const Tensor& log_sums) override;
  void cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& targets,
                          int64_t ignore, const Tensor& log_sums,
                          const Tensor& logits_grad) override;

  void normalize(const Tensor& x, bool center, double epsilon, const Tensor& out,
                 const Tensor& stats) override;
  void normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats, bool center,
                      double epsilon, const Tensor& x_grad) override;

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRules& rules,
                 const Tensor& out, const Tensor& log_sums) override;
  void attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionRules& rules, const Tensor& out, const Tensor& log_sums,
                      const Tensor& q_grad, const Tensor& k_grad, const Tensor& v_grad) override;

  void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window,
              const Tensor& out) override;
  void conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window,
                         const Tensor& x_grad) override;
  void conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window,
                          const Tensor& weight_grad) override;
  void max_pool2d(const Tensor& x, const Window2d& window, const Tensor& out,
                  const Tensor& chosen) override;
  void max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) override;

  void uniform(uint64_t seed, uint64_t offset, double low, double high, const Tensor& out) override;
  void normal(uint64_t seed, uint64_t offset, double mean, double deviation,
              const Tensor& out) override;
  void dropout(uint64_t seed, uint64_t offset, const Layout& place, double p, const Tensor& in,
               const Tensor& out) override;
};

}  // namespace capstan
