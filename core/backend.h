// Defines Backend, the list of primitive kernels that a device implements, one typed function each.
//
// The layers above validate shapes and dtypes, promote, broadcast and allocate the outputs; kernels
// trust their arguments. "Broadcast inputs" have the output's shape, with stride 0 where they
// repeat. Implementations: core/cpu (host memory), core/meta (shapes only).
//
// Read in this order: element-wise, reductions, matrix products, then the layers' kernels.
#pragma once

#include <span>

#include "core/tensor.h"

namespace capstan {

/// One-input element-wise functions; formulas in core/formulas.h.
enum class Unary { negate, absolute, exp, log, sqrt, square, reciprocal, tanh, sigmoid, relu };

/// Two-input element-wise functions. The `_grad` entries take (upstream gradient, saved value).
enum class Binary {
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  power,
  relu_grad,
  tanh_grad,
  sigmoid_grad,
};

/// Two-input comparisons with a bool result.
enum class Compare { equal, not_equal, less, less_equal, greater, greater_equal };

enum class Reduction { sum, max, min };

/// Geometry of a 2-d sliding window, the same for both axes' pairs (height, width).
struct Window2d {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};

  /// Output size along axis 0 (height) or 1 (width); may be below 1 for a window that does not fit.
  int64_t output_size(int axis, int64_t input) const {
    return (input + 2 * padding[axis] - kernel[axis]) / stride[axis] + 1;
  }
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
  virtual void argmax(const Tensor& in, int axis,
                      const Tensor& out) = 0;  // int64; the first of equals
  /// Sum of squares of a dense tensor, accumulated in float64; the same on any number of threads.
  virtual double sum_of_squares(const Tensor& in) = 0;

  // Matrix products. a [m, k], b [k, n], out [m, n] dense; a and b have stride 1 on one axis.
  virtual void matmul(const Tensor& a, const Tensor& b, const Tensor& out) = 0;

  // Rows [indices[i], ...] of `in` (any shape [n, ...], dense) to out [indices.size(), ...], and
  // the reverse, which adds into `in_grad`.
  virtual void take_rows(const Tensor& in, const Tensor& indices, const Tensor& out) = 0;
  virtual void add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) = 0;

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

  // Convolution of x [n, c, h, w] with weight [o, c, kh, kw] and bias [o] (may be null), all dense.
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

  // Element i of dense `out` is made from the words offset + i * n, ... of the stream of `seed`,
  // with n and the arithmetic from core/random.h (dropout: one float's).
  virtual void uniform(uint64_t seed, uint64_t offset, double low, double high,
                       const Tensor& out) = 0;
  virtual void normal(uint64_t seed, uint64_t offset, double mean, double deviation,
                      const Tensor& out) = 0;
  /// out = in / (1 - p) where the element's random number is at least p, else 0. Calling it on the
  /// gradient with the same seed and offset is its derivative: no mask is stored.
  virtual void dropout(uint64_t seed, uint64_t offset, double p, const Tensor& in,
                       const Tensor& out) = 0;

  /// Applies each update's rule to each element, in place (optimizer steps).
  virtual void update(std::span<const Update> updates) = 0;
};

/// The backend of a device. Throws DeviceError for a device that was not built in.
Backend& backend(Device device);
inline Backend& backend(const Tensor& tensor) { return backend(tensor.device()); }

}  // namespace capstan
