// Defines Autocast, under which a float32 model computes its products in 16 bits.
//
//   Autocast guard(Dtype::bfloat16);
//   loss = cross_entropy(model(x), labels);   // then backward(loss), inside or outside
//
// Parameters, their gradients and the optimizer stay float32: the casts are on the tape. (With
// float16, gradients may vanish: see optim/grad_scaler.h. To store the parameters themselves in 16
// bits, convert the model instead: Module::to(Dtype::bfloat16), and optim/optimizer.h.)
//
// What happens to float32 and 16-bit operands:
//   narrowed to the guard's dtype  matmul, bmm, addmm, dot, tensordot, einsum, linear, the
//                                  convolutions, scaled_dot_product_attention
//   widened to float32             softmax, log_softmax, the losses, the normalisations, sum, mean,
//                                  prod, cumsum, var, stddev, norm, logsumexp
//   left, and promoted             everything else
// float64 is left as it is. The gradients' formulas run without: they see what the forward pass
// saw.
#pragma once

#include <optional>

#include "core/tensor.h"

namespace capstan {

/// While it lives, autocasting is on in this thread, with `dtype`; a guard inside another counts.
class Autocast {
 public:
  /// Throws DtypeError unless `dtype` is bfloat16 or float16.
  explicit Autocast(Dtype dtype = Dtype::bfloat16);
  /// Off, for std::nullopt.
  explicit Autocast(std::optional<Dtype> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<Dtype> before_;
};

/// The dtype of the innermost guard of this thread, or none.
std::optional<Dtype> autocast_dtype();

namespace detail {
extern constinit thread_local std::optional<Dtype> autocasting;
}  // namespace detail

/// How an operation obeys: its first line, which calls it again with its operands cast.
///
///   if (const Autocasting on; on) return matmul(on.narrow(a), on.narrow(b));
///
/// While it lives, autocasting is off: what the operation is made of sees what it was given.
class Autocasting {
 public:
  Autocasting() : dtype_(detail::autocasting) {
    if (dtype_) detail::autocasting.reset();
  }
  ~Autocasting() {
    if (dtype_) detail::autocasting = dtype_;
  }
  Autocasting(const Autocasting&) = delete;
  Autocasting& operator=(const Autocasting&) = delete;

  explicit operator bool() const { return dtype_.has_value(); }

  /// In the guard's dtype, unless float64.
  Tensor narrow(const Tensor& x) const;
  /// In float32, unless float64.
  Tensor wide(const Tensor& x) const;

  /// The same of an operand that may be missing: on.wide(bias).get().
  class Maybe {
   public:
    explicit Maybe(Tensor x) : x_(std::move(x)) {}
    const Tensor* get() const { return x_.defined() ? &x_ : nullptr; }

   private:
    Tensor x_;
  };
  Maybe narrow(const Tensor* x) const { return Maybe(x ? narrow(*x) : Tensor()); }
  Maybe wide(const Tensor* x) const { return Maybe(x ? wide(*x) : Tensor()); }

 private:
  std::optional<Dtype> dtype_;
};

}  // namespace capstan
