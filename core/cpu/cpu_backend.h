// Defines CpuBackend, the kernels for host memory. Each group of functions lives in the file named
// above it.
#pragma once

#include "core/backend.h"

namespace capstan {

class CpuBackend : public Backend {
 public:
  // fill_copy.cc
  void fill(const Tensor& out, double value) override;
  void copy(const Tensor& in, const Tensor& out) override;

  // unary.cc, binary.cc, compare.cc
  void unary(Unary op, const Tensor& in, const Tensor& out) override;
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void compare(Compare op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) override;

  // reduce.cc
  void reduce(Reduction op, const Tensor& in, const Tensor& out) override;
  void extreme_position(Reduction op, const Tensor& in, int axis, const Tensor& out) override;
  void cumulative_sum(const Tensor& in, int axis, const Tensor& out) override;
  double sum_of_squares(const Tensor& in) override;

  // matmul.cc
  void matmul(const Tensor& a, const Tensor& b, const Tensor& out) override;

  // rows.cc
  void take_rows(const Tensor& in, const Tensor& indices, const Tensor& out) override;
  void add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) override;

  // indexing.cc
  void gather(const Tensor& in, int axis, const Tensor& indices, const Tensor& out) override;
  void scatter(const Tensor& in, int axis, const Tensor& indices, const Tensor& out,
               bool add) override;
  Tensor true_positions(const Tensor& mask) override;

  // order.cc
  void order(const Tensor& in, bool descending, const Tensor& positions) override;

  // linalg.cc
  int64_t cholesky(const Tensor& a, const Tensor& lower) override;
  int64_t solve(const Tensor& a, const Tensor& b, const Tensor& x) override;
  void qr(const Tensor& a, const Tensor& q, const Tensor& r) override;
  void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) override;
  int64_t eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) override;

  // softmax.cc
  void log_softmax(const Tensor& in, const Tensor& out) override;
  void log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore,
                     const Tensor& losses, const Tensor& log_sums) override;
  void cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& targets,
                          int64_t ignore, const Tensor& log_sums,
                          const Tensor& logits_grad) override;

  // ctc.cc
  void ctc_loss(const Tensor& log_p, const Tensor& targets, const CtcLengths& lengths,
                int64_t blank, const Tensor& losses, const Tensor& alphas) override;
  void ctc_loss_grad(const Tensor& grad, const Tensor& log_p, const Tensor& targets,
                     const CtcLengths& lengths, int64_t blank, const Tensor& losses,
                     const Tensor& alphas, const Tensor& log_p_grad) override;

  // normalize.cc
  void normalize(const Tensor& x, bool center, double epsilon, const Tensor& out,
                 const Tensor& stats) override;
  void normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats, bool center,
                      double epsilon, const Tensor& x_grad) override;

  // attention.cc
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRules& rules,
                 const Tensor& out, const Tensor& log_sums) override;
  void attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionRules& rules, const Tensor& out, const Tensor& log_sums,
                      const Tensor& q_grad, const Tensor& k_grad, const Tensor& v_grad) override;

  // conv2d.cc
  void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window,
              const Tensor& out) override;
  void conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window,
                         const Tensor& x_grad) override;
  void conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window,
                          const Tensor& weight_grad) override;

  // pool2d.cc
  void max_pool2d(const Tensor& x, const Window2d& window, const Tensor& out,
                  const Tensor& chosen) override;
  void max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) override;

  // recurrent.cc
  void recurrent_step(Cell cell, const Tensor& x, const Tensor& hidden, const Tensor* bias,
                      const Tensor& state, const Tensor& out, const Tensor& kept) override;
  void recurrent_step_grad(Cell cell, const Tensor& grad, const Tensor& kept, const Tensor& before,
                           const Tensor& state_grad, const Tensor& x_grad,
                           const Tensor& hidden_grad) override;

  // random.cc
  void uniform(uint64_t seed, uint64_t offset, double low, double high, const Tensor& out) override;
  void normal(uint64_t seed, uint64_t offset, double mean, double deviation,
              const Tensor& out) override;
  void integers(uint64_t seed, uint64_t offset, int64_t low, uint64_t range,
                const Tensor& out) override;
  void dropout(uint64_t seed, uint64_t offset, const Layout& place, double p, const Tensor& in,
               const Tensor& out) override;

  // updates.cc
  void update(std::span<const Update> updates) override;
};

/// The kernels for tensors of `dtype`: CpuBackend, or for 16-bit types HalfBackend
/// (half_backend.cc).
Backend& cpu_backend(Dtype dtype);

}  // namespace capstan
