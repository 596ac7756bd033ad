// Defines the differentiable activations between layers, beside tanh() and sigmoid().
//
// They take floating point (relu: any dtype), or else throw DtypeError. Where the pieces of a
// function meet, the gradient is that of the flat piece, or else of the one below.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// max(x, 0)
Tensor relu(const Tensor& x);
/// x above 0, slope * x below.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// leaky_relu with a learned slope (He et al., "Delving deep into rectifiers", ICCV 2015): one, or
/// one for each channel of x [n, channels, ...]. The result has x's dtype. Throws ShapeError for
/// another number of slopes, and DeviceError.
Tensor prelu(const Tensor& x, const Tensor& slope);
/// x above 0, alpha (exp(x) - 1) below (Clevert, Unterthiner, Hochreiter, 2016).
Tensor elu(const Tensor& x, double alpha = 1);
/// elu times a number, both chosen so that layers keep mean 0 and variance 1 (Klambauer,
/// Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", NIPS 2017).
Tensor selu(const Tensor& x);
/// x above 0, alpha (exp(x / alpha) - 1) below: smooth at 0 (Barron, 2017). Throws ValueError
/// unless alpha is above 0 and finite.
Tensor celu(const Tensor& x, double alpha = 1);
/// x cut off below `low` and above `high`. Throws ValueError if low is above high.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// hardtanh between 0 and 6.
Tensor relu6(const Tensor& x);
/// A sigmoid of three straight lines: relu6(x + 3) / 6.
Tensor hardsigmoid(const Tensor& x);
/// x hardsigmoid(x) (Howard et al., "Searching for MobileNetV3", ICCV 2019).
Tensor hardswish(const Tensor& x);
/// x times the probability that a standard normal number is below x (Hendrycks, Gimpel, 2016).
Tensor gelu(const Tensor& x);
/// The same paper's approximation: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
Tensor gelu_tanh(const Tensor& x);
/// x sigmoid(x), also called swish.
Tensor silu(const Tensor& x);
/// x tanh(softplus(x)) (Misra, BMVC 2020).
Tensor mish(const Tensor& x);
/// log(1 + exp(beta x)) / beta, without overflow. Throws ValueError unless beta is above 0.
Tensor softplus(const Tensor& x, double beta = 1);
/// log(sigmoid(x)), without overflow.
Tensor log_sigmoid(const Tensor& x);
/// x / (1 + |x|)
Tensor softsign(const Tensor& x);
/// The first half of x along an axis, times the sigmoid of the second (Dauphin et al., "Language
/// modeling with gated convolutional networks", ICML 2017). Throws ShapeError for an odd size.
Tensor glu(const Tensor& x, int64_t axis = -1);

}  // namespace capstan
