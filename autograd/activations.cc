#include "autograd/activations.h"

#include <numbers>

#include "autograd/arithmetic.h"
#include "autograd/functions.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// forward(x), recorded as one operation that keeps x alone; both functions are made of operations.
template <class Forward, class Slope>
Tensor activation(const char* operation, const Tensor& x, const Forward& forward, Slope slope) {
  check_floating(operation, x.dtype());
  const Tensor y = no_grad([&] { return forward(x); });
  return record(operation, y, inputs(x), [x = Saved(x), slope](const Tensor& grad) {
    return gradients(grad * slope(x.get()));
  });
}

Tensor is_positive(const Tensor& x) { return greater(x, scalar_beside(x, 0)); }

/// grad where y is above 0, else 0, in one kernel.
Tensor relu_grad(const Tensor& grad, const Tensor& y) {
  return record("relu", binary("relu", Binary::relu_grad, grad, y), inputs(grad),
                [y = Saved(y)](const Tensor& g) { return gradients(relu_grad(g, y.get())); });
}

Tensor between(const char* operation, const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    raise<ValueError>("[{}] low must not be above high, got {} and {}", operation, low, high);
  }
  return activation(
      operation, x, [=](const Tensor& x) { return clamp(x, low, high); },
      [=](const Tensor& x) {
        const Tensor inside =
            logical_and(greater(x, scalar_beside(x, low)), less(x, scalar_beside(x, high)));
        return cast(inside, x.dtype());
      });
}

/// The probability that a standard normal number is below x.
Tensor normal_cdf(const Tensor& x) { return (erf(x * (1 / std::numbers::sqrt2)) + 1) * 0.5; }
Tensor normal_density(const Tensor& x) {
  return exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

constexpr double kCubic = 0.044715;
constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
Tensor gelu_curve(const Tensor& x) { return tanh(x * (square(x) * kCubic + 1) * kScale); }

}  // namespace

Tensor relu(const Tensor& x) {
  const Tensor y = unary(Unary::relu, x);
  return record("relu", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(relu_grad(grad, y.get()));
  });
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return activation(
      "leaky_relu", x, [=](const Tensor& x) { return where(is_positive(x), x, x * slope); },
      [=](const Tensor& x) {
        return where(is_positive(x), scalar_beside(x, 1), scalar_beside(x, slope));
      });
}

Tensor elu(const Tensor& x, double alpha) {
  return activation(
      "elu", x, [=](const Tensor& x) { return where(is_positive(x), x, expm1(x) * alpha); },
      [=](const Tensor& x) { return where(is_positive(x), scalar_beside(x, 1), exp(x) * alpha); });
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  return between("hardtanh", x, low, high);
}

Tensor relu6(const Tensor& x) { return between("relu6", x, 0, 6); }

Tensor gelu(const Tensor& x) {
  return activation(
      "gelu", x, [](const Tensor& x) { return x * normal_cdf(x); },
      [](const Tensor& x) { return normal_cdf(x) + x * normal_density(x); });
}

Tensor gelu_tanh(const Tensor& x) {
  return activation(
      "gelu_tanh", x, [](const Tensor& x) { return x * (gelu_curve(x) + 1) * 0.5; },
      [](const Tensor& x) {
        const Tensor curve = gelu_curve(x);
        const Tensor bend = (1 - square(curve)) * (square(x) * (3 * kCubic) + 1) * kScale;
        return (curve + 1 + x * bend) * 0.5;
      });
}

Tensor silu(const Tensor& x) {
  return activation(
      "silu", x, [](const Tensor& x) { return x * sigmoid(x); },
      [](const Tensor& x) {
        const Tensor s = sigmoid(x);
        return s * (x * (1 - s) + 1);
      });
}

Tensor softplus(const Tensor& x, double beta) {
  if (!(beta > 0)) raise<ValueError>("[softplus] beta must be above 0, got {}", beta);
  return activation(
      "softplus", x,
      [=](const Tensor& x) {
        const Tensor scaled = x * beta;
        return (relu(scaled) + log1p(exp(-absolute(scaled)))) / beta;
      },
      [=](const Tensor& x) { return sigmoid(x * beta); });
}

Tensor log_sigmoid(const Tensor& x) {
  return activation(
      "log_sigmoid", x, [](const Tensor& x) { return -relu(-x) - log1p(exp(-absolute(x))); },
      [](const Tensor& x) { return sigmoid(-x); });
}

}  // namespace capstan
