// Each function is a kernel and a derivative; the helpers on top put the two together.
#include "autograd/functions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/arithmetic.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// A function of floating point whose derivative slope(x) is a recorded operation.
template <class Slope>
Tensor function(const char* operation, Unary op, const Tensor& x, Slope slope) {
  return record(
      operation, floating_unary(operation, op, x), inputs(x),
      [x = Saved(x), slope](const Tensor& grad) { return gradients(grad * slope(x.get())); });
}

/// The same with a derivative slope(y) that is best told from the result y.
template <class Slope>
Tensor function_by_result(const char* operation, Unary op, const Tensor& x, Slope slope) {
  const Tensor y = floating_unary(operation, op, x);
  return record(operation, y, inputs(x), [y = Saved::output(y), slope](const Tensor& grad) {
    return gradients(grad * slope(y.get()));
  });
}

/// grad times a derivative told from the result y, in one kernel. `change` is the derivative's own
/// derivative by y, for gradients of gradients.
template <class Change>
Tensor times_slope(const char* operation, Binary op, const Tensor& grad, const Tensor& y,
                   Change change) {
  return record(operation, binary(operation, op, grad, y), inputs(grad, y),
                [=, grad = Saved(grad), y = Saved(y)](const Tensor& g, Wanted wanted) {
                  return gradients(
                      wanted[0] ? times_slope(operation, op, g, y.get(), change) : Tensor(),
                      wanted[1] ? g * grad.get() * change(y.get()) : Tensor());
                });
}

/// A function whose gradient is 0 wherever it has one.
Tensor step(const char* operation, Unary op, const Tensor& x) {
  return record(operation, unary(op, x), inputs(x),
                [](const Tensor& grad) { return gradients(zeros_like(grad)); });
}

/// |x| compared with infinity; integers are finite.
Tensor beside_infinity(const char* operation, Compare op, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    return full(x.shape(), op == Compare::less, {Dtype::boolean, x.device()});
  }
  const Tensor infinity = scalar_beside(x, std::numeric_limits<double>::infinity());
  return compare(operation, op, unary(Unary::absolute, x), infinity);
}

}  // namespace

Tensor absolute(const Tensor& x) {  // the gradient at 0 is 0, the middle of -1 and 1
  return record("absolute", unary(Unary::absolute, x), inputs(x),
                [x = Saved(x)](const Tensor& grad) { return gradients(grad * sign(x.get())); });
}

Tensor square(const Tensor& x) {
  return record("square", unary(Unary::square, x), inputs(x),
                [x = Saved(x)](const Tensor& grad) { return gradients(grad * x.get() * 2); });
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high))
    raise<ValueError>("[clamp] low must not be above high, got {}, {}", low, high);
  const Tensor least = scalar_beside(x, low), most = scalar_beside(x, high);
  const Tensor y =
      binary("clamp", Binary::minimum, binary("clamp", Binary::maximum, x, least), most);
  return record("clamp", y, inputs(x), [x = Saved(x), least, most](const Tensor& grad) {
    const Tensor value = x.get();
    const Tensor inside = logical_and(greater_equal(value, least), less_equal(value, most));
    return gradients(where(inside, grad, scalar_beside(grad, 0)));
  });
}

Tensor sign(const Tensor& x) { return step("sign", Unary::sign, x); }
Tensor floor(const Tensor& x) { return step("floor", Unary::floor, x); }
Tensor ceil(const Tensor& x) { return step("ceil", Unary::ceil, x); }
Tensor round(const Tensor& x) { return step("round", Unary::round, x); }
Tensor trunc(const Tensor& x) { return step("trunc", Unary::trunc, x); }

Tensor isnan(const Tensor& x) { return compare("isnan", Compare::not_equal, x, x); }
Tensor isinf(const Tensor& x) { return beside_infinity("isinf", Compare::equal, x); }
Tensor isfinite(const Tensor& x) { return beside_infinity("isfinite", Compare::less, x); }

Tensor reciprocal(const Tensor& x) {
  return function_by_result("reciprocal", Unary::reciprocal, x,
                            [](const Tensor& y) { return -square(y); });
}

Tensor sqrt(const Tensor& x) {
  return function_by_result("sqrt", Unary::sqrt, x, [](const Tensor& y) { return 0.5 / y; });
}

Tensor rsqrt(const Tensor& x) {
  return function_by_result("rsqrt", Unary::rsqrt, x,
                            [](const Tensor& y) { return y * square(y) * -0.5; });
}

Tensor exp(const Tensor& x) {
  return function_by_result("exp", Unary::exp, x, [](const Tensor& y) { return y; });
}

Tensor exp2(const Tensor& x) {
  return function_by_result("exp2", Unary::exp2, x,
                            [](const Tensor& y) { return y * std::numbers::ln2; });
}

Tensor expm1(const Tensor& x) {
  return function_by_result("expm1", Unary::expm1, x, [](const Tensor& y) { return y + 1; });
}

Tensor log(const Tensor& x) {
  return record("log", floating_unary("log", Unary::log, x), inputs(x),
                [x = Saved(x)](const Tensor& grad) { return gradients(grad / x.get()); });
}

Tensor log2(const Tensor& x) {
  return function("log2", Unary::log2, x, [](const Tensor& x) { return std::numbers::log2e / x; });
}

Tensor log10(const Tensor& x) {
  return function("log10", Unary::log10, x,
                  [](const Tensor& x) { return std::numbers::log10e / x; });
}

Tensor log1p(const Tensor& x) {
  return function("log1p", Unary::log1p, x, [](const Tensor& x) { return 1 / (x + 1); });
}

Tensor sin(const Tensor& x) {
  return function("sin", Unary::sin, x, [](const Tensor& x) { return cos(x); });
}

Tensor cos(const Tensor& x) {
  return function("cos", Unary::cos, x, [](const Tensor& x) { return -sin(x); });
}

Tensor tan(const Tensor& x) {
  return function_by_result("tan", Unary::tan, x, [](const Tensor& y) { return square(y) + 1; });
}

Tensor asin(const Tensor& x) {
  return function("asin", Unary::asin, x, [](const Tensor& x) { return rsqrt(1 - square(x)); });
}

Tensor acos(const Tensor& x) {
  return function("acos", Unary::acos, x, [](const Tensor& x) { return -rsqrt(1 - square(x)); });
}

Tensor atan(const Tensor& x) {
  return function("atan", Unary::atan, x, [](const Tensor& x) { return 1 / (square(x) + 1); });
}

Tensor sinh(const Tensor& x) {
  return function("sinh", Unary::sinh, x, [](const Tensor& x) { return cosh(x); });
}

Tensor cosh(const Tensor& x) {
  return function("cosh", Unary::cosh, x, [](const Tensor& x) { return sinh(x); });
}

Tensor tanh(const Tensor& x) {
  const Tensor y = floating_unary("tanh", Unary::tanh, x);
  return record("tanh", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(times_slope("tanh", Binary::tanh_grad, grad, y.get(),
                                 [](const Tensor& y) { return y * -2; }));
  });
}

Tensor asinh(const Tensor& x) {
  return function("asinh", Unary::asinh, x, [](const Tensor& x) { return rsqrt(square(x) + 1); });
}

Tensor acosh(const Tensor& x) {
  return function("acosh", Unary::acosh, x, [](const Tensor& x) { return rsqrt(square(x) - 1); });
}

Tensor atanh(const Tensor& x) {
  return function("atanh", Unary::atanh, x, [](const Tensor& x) { return 1 / (1 - square(x)); });
}

Tensor erf(const Tensor& x) {
  return function("erf", Unary::erf, x,
                  [](const Tensor& x) { return exp(-square(x)) * (2 * std::numbers::inv_sqrtpi); });
}

Tensor sigmoid(const Tensor& x) {
  const Tensor y = floating_unary("sigmoid", Unary::sigmoid, x);
  return record("sigmoid", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(times_slope("sigmoid", Binary::sigmoid_grad, grad, y.get(),
                                 [](const Tensor& y) { return 1 - y * 2; }));
  });
}

}  // namespace capstan
