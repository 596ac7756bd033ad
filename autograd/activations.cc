#include "autograd/activations.h"

#include <cmath>
#include <numbers>

#include "autograd/arithmetic.h"
#include "autograd/functions.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
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

/// x below 0, else 0. What is computed from it stays finite where x is large and not meant.
Tensor negative_part(const Tensor& x) { return where(is_positive(x), scalar_beside(x, 0), x); }

/// True where low < x < high.
Tensor inside(const Tensor& x, double low, double high) {
  return logical_and(greater(x, low), less(x, high));
}

/// x * factor, without a pass over the elements for the usual 1.
Tensor times(const Tensor& x, double factor) { return factor == 1 ? x : x * factor; }

/// above * x above 0, below * (exp(rate * x) - 1) below.
Tensor exponential_below(const char* operation, const Tensor& x, double above, double below,
                         double rate) {
  return activation(
      operation, x,
      [=](const Tensor& x) {
        return where(is_positive(x), times(x, above), times(expm1(times(x, rate)), below));
      },
      [=](const Tensor& x) {
        const Tensor curve = exp(times(negative_part(x), rate));
        return where(is_positive(x), scalar_beside(x, above), times(curve, below * rate));
      });
}

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
      [=](const Tensor& x) { return cast(inside(x, low, high), x.dtype()); });
}

/// The probability that a standard normal number is below x.
Tensor normal_cdf(const Tensor& x) { return (erf(x * (1 / std::numbers::sqrt2)) + 1) * 0.5; }
Tensor normal_density(const Tensor& x) {
  return exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

constexpr double kCubic = 0.044715;
constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
Tensor gelu_curve(const Tensor& x) { return tanh(x * (square(x) * kCubic + 1) * kScale); }

/// The slope or slopes of prelu() as they broadcast to x, whose axis 1 counts channels.
Tensor slope_beside(const Tensor& x, const Tensor& slope) {
  check_floating("prelu", x.dtype());
  check_floating("prelu", slope.dtype());
  check_same_device("prelu", x.device(), slope.device());
  const int64_t channels = x.rank() < 2 ? 1 : x.size(1);
  if (slope.rank() > 1 || (slope.numel() != 1 && slope.numel() != channels)) {
    raise<ShapeError>("[prelu] slope must be [1], or [{}] for the channels of {}, got {}", channels,
                      x.shape(), slope.shape());
  }
  Shape shape;
  if (slope.numel() != 1) {
    shape = Dims::filled(x.rank() - 1, 1);
    shape[0] = channels;
  }
  return cast(reshape(slope, shape), x.dtype());
}

/// The two halves of x along an axis.
std::array<Tensor, 2> halves(const Tensor& x, int axis) {
  const int64_t size = x.size(axis), half = size / 2;
  return {slice(x, axis, 0, half), slice(x, axis, half, size)};
}

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

Tensor prelu(const Tensor& x, const Tensor& slope) {
  const Tensor below = slope_beside(x, slope);
  const Tensor y = no_grad([&] { return where(is_positive(x), x, x * below); });
  return record("prelu", y, inputs(x, below),
                [x = Saved(x), below = Saved(below)](const Tensor& grad, Wanted wanted) {
                  const Tensor input = x.get(), slope = below.get(), one = scalar_beside(grad, 1);
                  return gradients(
                      wanted[0] ? grad * where(is_positive(input), one, slope) : Tensor(),
                      wanted[1] ? sum_to(grad * negative_part(input), slope.shape()) : Tensor());
                });
}

Tensor elu(const Tensor& x, double alpha) { return exponential_below("elu", x, 1, alpha, 1); }

Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return exponential_below("selu", x, kScale, kScale * kAlpha, 1);
}

Tensor celu(const Tensor& x, double alpha) {
  if (!(alpha > 0) || !std::isfinite(1 / alpha) || !std::isfinite(alpha)) {
    raise<ValueError>("[celu] alpha must be above 0 and finite, got {}", alpha);
  }
  return exponential_below("celu", x, 1, alpha, 1 / alpha);
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  return between("hardtanh", x, low, high);
}

Tensor relu6(const Tensor& x) { return between("relu6", x, 0, 6); }

Tensor hardsigmoid(const Tensor& x) {
  return activation(
      "hardsigmoid", x, [](const Tensor& x) { return clamp(x + 3, 0, 6) / 6; },
      [](const Tensor& x) { return cast(inside(x, -3, 3), x.dtype()) / 6; });
}

Tensor hardswish(const Tensor& x) {
  return activation(
      "hardswish", x, [](const Tensor& x) { return x * hardsigmoid(x); },
      [](const Tensor& x) {  // 0 below and 1 above, as is the hard sigmoid
        return where(inside(x, -3, 3), x / 3 + 0.5, hardsigmoid(x));
      });
}

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

Tensor mish(const Tensor& x) {
  return activation(
      "mish", x, [](const Tensor& x) { return x * tanh(softplus(x)); },
      [](const Tensor& x) {
        const Tensor t = tanh(softplus(x));
        return t + x * sigmoid(x) * (1 - square(t));
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

Tensor softsign(const Tensor& x) {
  return activation(
      "softsign", x, [](const Tensor& x) { return x / (absolute(x) + 1); },
      [](const Tensor& x) { return square(reciprocal(absolute(x) + 1)); });
}

Tensor glu(const Tensor& x, int64_t axis) {
  check_floating("glu", x.dtype());
  const int along = normalize_axis("glu", axis, x.rank());
  if (x.size(along) % 2 != 0) {
    raise<ShapeError>("[glu] axis {} of {} must have an even size to be halved", axis, x.shape());
  }
  const Tensor y = no_grad([&] {
    const auto [value, gate] = halves(x, along);
    return value * sigmoid(gate);
  });
  return record("glu", y, inputs(x), [x = Saved(x), along](const Tensor& grad) {
    const auto [value, gate] = halves(x.get(), along);
    const Tensor open = sigmoid(gate), passed = grad * open;
    return gradients(cat({passed, passed * value * (1 - open)}, along));
  });
}

}  // namespace capstan
