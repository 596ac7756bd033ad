#include "autograd/arithmetic.h"

#include <cmath>

#include "autograd/functions.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// maximum and minimum: the gradient goes to the operand that was chosen, half to each of equals.
Tensor choose(const char* operation, Binary op, Compare chosen, const Tensor& a, const Tensor& b) {
  return record(operation, binary(operation, op, a, b), inputs(a, b),
                [=, a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
                  const Tensor x = a.get(), y = b.get();
                  const Tensor tie = where(equal(x, y), grad * 0.5, scalar_beside(grad, 0));
                  const auto share = [&](const Tensor& mine, const Tensor& other) {
                    const Tensor won = compare(operation, chosen, mine, other);
                    return Origin(mine).back(where(won, grad, tie));
                  };
                  return gradients(wanted[0] ? share(x, y) : Tensor(),
                                   wanted[1] ? share(y, x) : Tensor());
                });
}

/// The dtype of a quotient in whole numbers, after the check that it exists.
Dtype check_divisor(const char* operation, const Tensor& a, const Tensor& b) {
  const Dtype dtype = promote(a.dtype(), b.dtype());
  if (dtype == Dtype::boolean) wrong_dtype(operation, "numbers", dtype);
  const bool can_look = !is_floating(dtype) && b.device().kind != Device::Kind::meta;
  if (can_look && any(logical_not(b)).item<bool>()) {
    raise<ValueError>("[{}] an integer cannot be divided by 0", operation);
  }
  return dtype;
}

Tensor as_bool(const Tensor& x) { return cast(x, Dtype::boolean); }

}  // namespace

Tensor scalar_beside(const Tensor& like, double value) {
  const bool whole = std::trunc(value) == value && like.dtype() != Dtype::boolean;
  const Dtype dtype = is_floating(like.dtype()) || whole ? like.dtype() : Dtype::float32;
  return full({}, value, {dtype, like.device()});
}

Tensor add(const Tensor& a, const Tensor& b) {
  return record("add", binary("add", Binary::add, a, b), inputs(a, b),
                [a = Origin(a), b = Origin(b)](const Tensor& grad, Wanted wanted) {
                  return gradients(wanted[0] ? a.back(grad) : Tensor(),
                                   wanted[1] ? b.back(grad) : Tensor());
                });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  return record("subtract", binary("subtract", Binary::subtract, a, b), inputs(a, b),
                [a = Origin(a), b = Origin(b)](const Tensor& grad, Wanted wanted) {
                  return gradients(wanted[0] ? a.back(grad) : Tensor(),
                                   wanted[1] ? b.back(negate(grad)) : Tensor());
                });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  return record("multiply", binary("multiply", Binary::multiply, a, b), inputs(a, b),
                [a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
                  const Tensor x = a.get(), y = b.get();
                  return gradients(wanted[0] ? Origin(x).back(grad * y) : Tensor(),
                                   wanted[1] ? Origin(y).back(grad * x) : Tensor());
                });
}

Tensor negate(const Tensor& x) {
  return record("negate", unary(Unary::negate, x), inputs(x),
                [](const Tensor& grad) { return gradients(negate(grad)); });
}

Tensor divide(const Tensor& a, const Tensor& b) {
  Dtype dtype = promote(a.dtype(), b.dtype());
  if (!is_floating(dtype)) dtype = Dtype::float32;
  return record("divide", binary("divide", Binary::divide, a, b, dtype), inputs(a, b),
                [a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
                  const Tensor x = a.get(), y = b.get();
                  return gradients(wanted[0] ? Origin(x).back(grad / y) : Tensor(),
                                   wanted[1] ? Origin(y).back(-grad / y * (x / y)) : Tensor());
                });
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const Dtype dtype = check_divisor("floor_divide", a, b);
  return record("floor_divide", binary("floor_divide", Binary::floor_divide, a, b, dtype),
                inputs(a, b), [a = Origin(a), b = Origin(b)](const Tensor& grad) {
                  const Tensor none = zeros_like(grad);
                  return gradients(a.back(none), b.back(none));
                });
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  const Dtype dtype = check_divisor("remainder", a, b);
  return record("remainder", binary("remainder", Binary::remainder, a, b, dtype), inputs(a, b),
                [a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
                  const Tensor x = a.get(), y = b.get();
                  return gradients(
                      wanted[0] ? Origin(x).back(grad) : Tensor(),
                      wanted[1] ? Origin(y).back(-grad * floor_divide(x, y)) : Tensor());
                });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return choose("maximum", Binary::maximum, Compare::greater, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return choose("minimum", Binary::minimum, Compare::less, a, b);
}

Tensor power(const Tensor& x, double exponent) {
  check_floating("power", x.dtype());
  if (exponent == 2) return square(x);
  return record("power", binary("power", Binary::power, x, scalar_beside(x, exponent)), inputs(x),
                [x = Saved(x), exponent](const Tensor& grad) {
                  if (exponent == 0) return gradients(zeros_like(grad));
                  return gradients(grad * power(x.get(), exponent - 1) * exponent);
                });
}

Tensor power(const Tensor& x, const Tensor& exponent) {
  const Dtype dtype = promote(x.dtype(), exponent.dtype());
  check_floating("power", dtype);
  const Tensor y = binary("power", Binary::power, x, exponent, dtype);
  return record("power", y, inputs(x, exponent),
                [x = Saved(x), exponent = Saved(exponent)](const Tensor& grad, Wanted wanted) {
                  const Tensor a = x.get(), b = exponent.get(), zero = scalar_beside(grad, 0);
                  const auto for_x = [&] {
                    return where(equal(b, zero), zero, grad * b * power(a, b - 1));
                  };
                  const auto for_exponent = [&] {  // 0^b stays 0 for every b above 0
                    const Tensor flat = logical_and(equal(a, zero), greater_equal(b, zero));
                    return where(flat, zero, grad * power(a, b) * log(cast(a, grad.dtype())));
                  };
                  return gradients(wanted[0] ? Origin(a).back(for_x()) : Tensor(),
                                   wanted[1] ? Origin(b).back(for_exponent()) : Tensor());
                });
}

Tensor power(double x, const Tensor& exponent) {
  return power(scalar_beside(exponent, x), exponent);
}

Tensor atan2(const Tensor& y, const Tensor& x) {
  const Dtype dtype = promote(y.dtype(), x.dtype());
  check_floating("atan2", dtype);
  return record("atan2", binary("atan2", Binary::atan2, y, x, dtype), inputs(y, x),
                [y = Saved(y), x = Saved(x)](const Tensor& grad, Wanted wanted) {
                  const Tensor a = y.get(), b = x.get();
                  const Tensor part = grad / (square(a) + square(b));
                  return gradients(wanted[0] ? Origin(a).back(part * b) : Tensor(),
                                   wanted[1] ? Origin(b).back(-part * a) : Tensor());
                });
}

Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", Compare::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare("not_equal", Compare::not_equal, a, b);
}
Tensor less(const Tensor& a, const Tensor& b) { return compare("less", Compare::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare("less_equal", Compare::less_equal, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) {
  return compare("greater", Compare::greater, a, b);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", Compare::greater_equal, a, b);
}

// For bools `and` is the smaller and `or` the larger of two.
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return binary("logical_and", Binary::minimum, as_bool(a), as_bool(b));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return binary("logical_or", Binary::maximum, as_bool(a), as_bool(b));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return compare("logical_xor", Compare::not_equal, as_bool(a), as_bool(b));
}
Tensor logical_not(const Tensor& x) {
  return compare("logical_not", Compare::equal, as_bool(x),
                 zeros({}, {Dtype::boolean, x.device()}));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (condition.dtype() != Dtype::boolean)
    wrong_dtype("where", "a bool condition", condition.dtype());
  check_same_device("where", a.device(), b.device());
  check_same_device("where", condition.device(), a.device());
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  const Dtype dtype = promote(a.dtype(), b.dtype());
  Tensor out = empty(shape, {dtype, a.device()});
  backend(out).where(as_operand(condition, Dtype::boolean, shape), as_operand(a, dtype, shape),
                     as_operand(b, dtype, shape), out);
  return record("where", out, inputs(a, b),
                [condition = Saved(condition), a = Origin(a), b = Origin(b)](const Tensor& grad,
                                                                             Wanted wanted) {
                  const Tensor zero = scalar_beside(grad, 0), chosen = condition.get();
                  return gradients(wanted[0] ? a.back(where(chosen, grad, zero)) : Tensor(),
                                   wanted[1] ? b.back(where(chosen, zero, grad)) : Tensor());
                });
}

Tensor cast(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty(x.shape(), {dtype, x.device()});
  copy_elements(x, out);
  if (!is_floating(dtype)) return out;
  return record("cast", out, inputs(x),
                [from = x.dtype()](const Tensor& grad) { return gradients(cast(grad, from)); });
}

}  // namespace capstan
