// Defines Backend, the list of primitive kernels that a device implements, one typed function each.
//
// The layers above validate shapes and dtypes, promote, broadcast and allocate the outputs; kernels
// trust their arguments. They compute in compute_dtype() of the tensors' dtype: 16-bit numbers are
// widened to float32 and rounded once, when the result is stored; statistics that a kernel keeps
// for its gradient are in the compute dtype. "Broadcast inputs" have the output's shape, with
// stride 0 where they repeat. Implementations: core/cpu (host memory), core/meta (shapes only).
//
// Read in this order: element-wise, reductions, matrix products, then the layers' kernels.
#pragma once

#include <span>

#include "core/tensor.h"

namespace capstan {

// The element-wise functions; a formula for each entry stands in core/formulas.h. `count` is their
// number.

/// One input.
enum class Unary {
  // all dtypes
  negate,
  absolute,
  sign,
  square,
  relu,
  floor,
  ceil,
  trunc,
  round,
  // floating point
  reciprocal,
  sqrt,
  rsqrt,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  sigmoid,
  count
};

/// Two inputs. The `_grad` entries take (upstream gradient, saved value).
enum class Binary {
  add,
  subtract,
  multiply,
  divide,
  power,
  atan2,
  remainder,
  floor_divide,
  maximum,
  minimum,
  relu_grad,
  tanh_grad,
  sigmoid_grad,
  count
};

/// Two inputs, with a bool result.
enum class Compare { equal, not_equal, less, less_equal, greater, greater_equal, count };

enum class Reduction { sum, product, max, min };

/// Geometry of a 2-d sliding window, the same for both axes' pairs (height, width).
struct Window2d {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};  // distance between the kernel's taps; convolution only

  /// From the window's first to its last element.
  int64_t extent(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  /// Output size along axis 0 (height) or 1 (width); may be below 1 for a window that does not fit.
  int64_t output_size(int axis, int64_t input) const {
    return (input + 2 * padding[axis] - extent(axis)) / stride[axis] + 1;
  }
};

/// How queries and keys make the weights of attention.
struct AttentionRules {
  Tensor mask = {};     // broadcast to [batch, heads, m, n], added to the scores; or undefined
  bool causal = false;  // query i sees the keys 0 to i + n - m
  double scale = 1;     // of the scores
  /// Each weight becomes 0 with probability `dropout`, and is divided by 1 - dropout else, after
  /// the softmax: as dropout() of the matrix [batch, heads, m, n] with this seed, offset and place,
  /// which has these four axes; those of a row are neighbours.
  double dropout = 0;
  uint64_t seed = 0, offset = 0;
  Layout place = {};
};

/// The cells of recurrent layers; their formulas stand in autograd/recurrence.h. A layer of `width`
/// works with [gates * width] sums of products a row, carries states of `states` parts (h, and c of
/// the LSTM) and keeps [kept * width] numbers a row for the gradient.
enum class Cell { rnn_tanh, rnn_relu, lstm, gru };
struct CellSizes {
  int64_t gates, states, kept;
};
constexpr CellSizes sizes_of(Cell cell) {
  if (cell == Cell::lstm) return {4, 2, 5};
  if (cell == Cell::gru) return {3, 1, 4};
  return {1, 1, 1};
}

/// Targets of ctc_loss(): sequence i of the batch has inputs[i] frames and targets[i] labels.
struct CtcLengths {
  std::span<const int64_t> inputs, targets;
};

struct Update;  // core/updates.h

class Backend {
 public:
  virtual ~Backend() = default;

  // Element-wise. `out` is dense unless said otherwise; inputs are broadcast.
  virtual void fill(const Tensor& out, double value) = 0;      // any strides
  virtual void copy(const Tensor& in, const Tensor& out) = 0;  // any strides, any dtypes
  virtual void unary(Unary op, const Tensor& in, const Tensor& out) = 0;
  virtual void binary(Binary op, const Tensor& a, const Tensor& b,
                      const Tensor& out) = 0;  // out may be a or b, any strides
  virtual void compare(Compare op, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  virtual void where(const Tensor& condition, const Tensor& a, const Tensor& b,
                     const Tensor& out) = 0;

  // Reductions. `out` has the rank of `in`, with size 1 on the reduced axes.
  virtual void reduce(Reduction op, const Tensor& in, const Tensor& out) = 0;
  /// Positions (int64) along an axis of the largest (op max) or smallest (min) elements, the first
  /// of equals; NaN wins.
  virtual void extreme_position(Reduction op, const Tensor& in, int axis, const Tensor& out) = 0;
  /// out[..., j, ...] = the sum of in[..., 0 to j, ...]; out of the dtype of a sum.
  virtual void cumulative_sum(const Tensor& in, int axis, const Tensor& out) = 0;
  /// Sum of squares of a dense tensor, accumulated in float64; the same on any number of threads.
  virtual double sum_of_squares(const Tensor& in) = 0;

  // Matrix products. a [m, k], b [k, n], out [m, n] dense; a and b have stride 1 on one axis. All
  // three may have one more axis in front: a batch of products, with any stride.
  virtual void matmul(const Tensor& a, const Tensor& b, const Tensor& out) = 0;

  // Rows [indices[i], ...] of `in` (any shape [n, ...], dense) to out [indices.size(), ...], and
  // the reverse, which adds into `in_grad`.
  virtual void take_rows(const Tensor& in, const Tensor& indices, const Tensor& out) = 0;
  virtual void add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) = 0;

  // Elements chosen by index along one axis: out[i][j][k] = in[i][indices[i][j][k]][k] for axis 1,
  // and the reverse, out[i][indices[i][j][k]][k] = in[i][j][k], which adds instead where `add`.
  // indices (int64, in range) has the shape of `out`, of `in` for scatter; the other tensor differs
  // along the axis alone. Any strides. Where indices repeat, they are taken in order.
  virtual void gather(const Tensor& in, int axis, const Tensor& indices, const Tensor& out) = 0;
  virtual void scatter(const Tensor& in, int axis, const Tensor& indices, const Tensor& out,
                       bool add) = 0;
  /// Positions (int64 [n]) of the true elements of a dense bool tensor, in row-major order.
  virtual Tensor true_positions(const Tensor& mask) = 0;
  /// positions[i] (int64 [rows, k]) are those of the k first elements of row i of dense `in`
  /// [rows, n] in ascending or descending order. Equals stay in order, NaN is the largest.
  virtual void order(const Tensor& in, bool descending, const Tensor& positions) = 0;

  // Softmax along the last axis of dense [rows, classes].
  virtual void log_softmax(const Tensor& in, const Tensor& out) = 0;
  virtual void log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) = 0;
  /// losses[i] = -log softmax(logits[i])[targets[i]], 0 where the target is `ignore`. log_sums
  /// [rows, 2] are kept for the gradient: the row's maximum, and the log of the sum of exponentials
  /// relative to it (apart, because adding them would round the second away). logits [rows,
  /// classes], targets int64 [rows] (validated).
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore,
                             const Tensor& losses, const Tensor& log_sums) = 0;
  /// logits_grad[i] = (softmax(logits[i]) - onehot(targets[i])) * grad[i]; 0 where ignored.
  virtual void cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& targets,
                                  int64_t ignore, const Tensor& log_sums,
                                  const Tensor& logits_grad) = 0;

  /// losses[i] = -log of the probability of the labels targets[i] (int64 [batch, longest],
  /// validated up to their lengths) under dense log_p [n, batch, classes]; infinite where they do
  /// not fit into the frames. alphas (float64 [batch, n, 2 longest + 1]) are kept for the gradient.
  virtual void ctc_loss(const Tensor& log_p, const Tensor& targets, const CtcLengths& lengths,
                        int64_t blank, const Tensor& losses, const Tensor& alphas) = 0;
  /// NaN in frames of an infinite loss, 0 in those behind a sequence's end.
  virtual void ctc_loss_grad(const Tensor& grad, const Tensor& log_p, const Tensor& targets,
                             const CtcLengths& lengths, int64_t blank, const Tensor& losses,
                             const Tensor& alphas, const Tensor& log_p_grad) = 0;

  // Normalisation of dense x [outer, groups, inner]: every group, over outer and inner, gets the
  // mean 0 and the variance 1, out = (x - mean) / sqrt(variance + epsilon). Unless `center`, the
  // mean square takes the place of the variance and 0 that of the mean. stats [groups, 2] keeps
  // mean and variance for the gradient.
  virtual void normalize(const Tensor& x, bool center, double epsilon, const Tensor& out,
                         const Tensor& stats) = 0;
  virtual void normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats, bool center,
                              double epsilon, const Tensor& x_grad) = 0;

  /// out = softmax(scale q k^T + mask) v without the matrix of scores in memory, for dense q
  /// [batch, heads, m, d], k [batch, groups, n, d], v [batch, groups, n, e]; heads / groups
  /// neighbouring heads share keys and values. The mask (q's dtype) is a broadcast input. A query
  /// that sees no key gets 0. log_sums [batch, heads, m, 2] is as in cross_entropy().
  virtual void attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionRules& rules, const Tensor& out,
                         const Tensor& log_sums) = 0;
  virtual void attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionRules& rules, const Tensor& out,
                              const Tensor& log_sums, const Tensor& q_grad, const Tensor& k_grad,
                              const Tensor& v_grad) = 0;

  // Convolution of x [n, c, h, w] with weight [o, c / groups, kh, kw] and bias [o] (may be null),
  // all dense: each of `groups` equal parts of the outputs sees its part of the channels.
  virtual void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                      const Window2d& window, const Tensor& out) = 0;
  virtual void conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window,
                                 const Tensor& x_grad) = 0;
  virtual void conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window,
                                  const Tensor& weight_grad) = 0;
  /// `chosen` (int32, out's shape) keeps the position in the input plane that won; padding never
  /// wins.
  virtual void max_pool2d(const Tensor& x, const Window2d& window, const Tensor& out,
                          const Tensor& chosen) = 0;
  virtual void max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) = 0;

  // One step of a recurrent cell on n rows (see Cell). x and hidden [n, gates * width] are the
  // products of the input and of h, bias (may be null) belongs to the second; kept [n, kept *
  // width]. All are dense but for the axis in front of [states, n, width].
  /// Steps `state` in place and copies it to `out`.
  virtual void recurrent_step(Cell cell, const Tensor& x, const Tensor& hidden, const Tensor* bias,
                              const Tensor& state, const Tensor& out, const Tensor& kept) = 0;
  /// `grad` is that of `out`, `before` the state before the step. `state_grad` comes with the
  /// gradient of the state after the step, and leaves with that of `before`, but for what goes
  /// through `hidden`. x_grad and hidden_grad are one tensor, except for the GRU.
  virtual void recurrent_step_grad(Cell cell, const Tensor& grad, const Tensor& kept,
                                   const Tensor& before, const Tensor& state_grad,
                                   const Tensor& x_grad, const Tensor& hidden_grad) = 0;

  // Linear algebra on a batch of dense matrices [batch, rows, columns]. Where a matrix may be
  // unfit, the number of the first that is comes back, or -1.
  /// a = lower lower^T for symmetric positive definite a [b, n, n]; reads the lower triangle.
  virtual int64_t cholesky(const Tensor& a, const Tensor& lower) = 0;
  /// a x = b with a [b, n, n], b and x [b, n, m]; unfit: singular.
  virtual int64_t solve(const Tensor& a, const Tensor& b, const Tensor& x) = 0;
  /// a [b, m, n] = q [b, m, k] r [b, k, n], k = min(m, n), with r's diagonal not negative.
  virtual void qr(const Tensor& a, const Tensor& q, const Tensor& r) = 0;
  /// a [b, m, n] = u [b, m, k] diag(s [b, k]) v^T, v [b, n, k], s falling.
  virtual void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) = 0;
  /// Symmetric a [b, n, n] = vectors diag(values [b, n]) vectors^T, values rising; reads the lower
  /// triangle. Unfit: no convergence.
  virtual int64_t eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) = 0;

  // Element i of dense `out` is made from the words offset + i * n, ... of the stream of `seed`,
  // with n and the arithmetic from core/random.h (dropout: one float's).
  virtual void uniform(uint64_t seed, uint64_t offset, double low, double high,
                       const Tensor& out) = 0;
  virtual void normal(uint64_t seed, uint64_t offset, double mean, double deviation,
                      const Tensor& out) = 0;
  virtual void integers(uint64_t seed, uint64_t offset, int64_t low, uint64_t range,
                        const Tensor& out) = 0;
  /// out = in / (1 - p) where the element's random number is at least p, else 0. Calling it on the
  /// gradient with the same numbers is its derivative: no mask is stored. The numbers are those of
  /// element i of `place`, a layout of as many elements, in a larger tensor (core/part.h).
  virtual void dropout(uint64_t seed, uint64_t offset, const Layout& place, double p,
                       const Tensor& in, const Tensor& out) = 0;

  /// Applies each update's rule to each element, in place (optimizer steps).
  virtual void update(std::span<const Update> updates) = 0;
};

/// The kernels of a device for `dtype`, that of the floating-point tensors which a kernel gets.
/// Throws DeviceError for a device that was not built in.
Backend& backend(Device device, Dtype dtype = Dtype::float32);
inline Backend& backend(const Tensor& tensor) { return backend(tensor.device(), tensor.dtype()); }

}  // namespace capstan
