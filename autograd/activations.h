// Defines the differentiable activations between layers, beside tanh() and sigmoid().
//
// They take floating point (relu: any dtype), or else throw DtypeError. Where the pieces of a
// function meet, the gradient is that of the flat piece.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// max(x, 0)
Tensor relu(const Tensor& x);
/// x above 0, slope * x below.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x above 0, alpha (exp(x) - 1) below (Clevert, Unterthiner, Hochreiter, 2016).
Tensor elu(const Tensor& x, double alpha = 1);
/// x cut off below `low` and above `high`. Throws ValueError if low is above high.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// hardtanh between 0 and 6.
Tensor relu6(const Tensor& x);
/// x times the probability that a standard normal number is below x (Hendrycks, Gimpel, 2016).
Tensor gelu(const Tensor& x);
/// The same paper's approximation: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
Tensor gelu_tanh(const Tensor& x);
/// x sigmoid(x), also called swish.
Tensor silu(const Tensor& x);
/// log(1 + exp(beta x)) / beta, without overflow. Throws ValueError unless beta is above 0.
Tensor softplus(const Tensor& x, double beta = 1);
/// log(sigmoid(x)), without overflow.
Tensor log_sigmoid(const Tensor& x);

}  // namespace capstan
