// Defines how weights start.
#pragma once

#include "core/random.h"

namespace capstan::nn {

/// Uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)): the start of linear and convolution layers,
/// weights and biases. It is Kaiming's uniform scheme (He et al., "Delving deep into rectifiers",
/// ICCV 2015, eq. 10) with a gain of sqrt(1/3). Throws ValueError for fan_in below 1.
Tensor fan_in_uniform(const Shape& shape, int64_t fan_in,
                      Generator& generator = default_generator());

/// Schemes for weights that exist, written outside the tape: init::kaiming_normal(layer.weight).
/// Floating point of any device, or else DtypeError.
///
/// For xavier, kaiming and orthogonal a weight [out, in, ...] has fan_in = in * rest and fan_out =
/// out * rest, with rest the product of the further sizes. They throw ShapeError for less than two
/// axes, or one of size 0; the others take any shape.
namespace init {

void constant(const Tensor& tensor, double value);
/// Uniform in [low, high). Throws ValueError unless low is below high and both are finite.
void uniform(const Tensor& tensor, double low = 0, double high = 1,
             Generator& generator = default_generator());
/// Throws ValueError unless mean and deviation are finite and the deviation is at least 0.
void normal(const Tensor& tensor, double mean = 0, double deviation = 1,
            Generator& generator = default_generator());

/// What keeps the variance of a layer's results through the activation before it.
inline constexpr double kReluGain = 1.4142135623730951;  // sqrt(2)
inline constexpr double kTanhGain = 5.0 / 3;
double leaky_relu_gain(double slope);

/// Variance gain^2 * 2 / (fan_in + fan_out) (Glorot, Bengio, "Understanding the difficulty of
/// training deep feedforward neural networks", AISTATS 2010, section 4.2.1).
void xavier_uniform(const Tensor& weight, double gain = 1,
                    Generator& generator = default_generator());
void xavier_normal(const Tensor& weight, double gain = 1,
                   Generator& generator = default_generator());

enum class Fan { in, out };  // keeps the variance of the results, or of the gradients

/// Variance gain^2 / fan (He et al., "Delving deep into rectifiers", ICCV 2015, section 2.2).
void kaiming_uniform(const Tensor& weight, double gain = kReluGain, Fan fan = Fan::in,
                     Generator& generator = default_generator());
void kaiming_normal(const Tensor& weight, double gain = kReluGain, Fan fan = Fan::in,
                    Generator& generator = default_generator());

/// gain times a random matrix [out, in * rest] whose rows, or columns where these are less, are
/// orthonormal (Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning",
/// ICLR 2014).
void orthogonal(const Tensor& weight, double gain = 1, Generator& generator = default_generator());

/// Normal, drawn again until it lies in [low, high]. Throws ValueError unless deviation
/// is above 0 and at least one number in a thousand lies there.
void truncated_normal(const Tensor& tensor, double mean = 0, double deviation = 1, double low = -2,
                      double high = 2, Generator& generator = default_generator());

}  // namespace init
}  // namespace capstan::nn
