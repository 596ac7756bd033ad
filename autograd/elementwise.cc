#include "autograd/elementwise.h"

#include <cmath>

#include "autograd/record.h"
#include "autograd/reduce.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// A handle of `x` with the dtype and shape that an element-wise kernel wants; strides may be 0.
Tensor as_operand(const Tensor& x, Dtype dtype, const Shape& shape) {
  const Tensor typed = x.dtype() == dtype ? x : cast(x, dtype);
  return typed.shape() == shape ? typed : view_of(typed, typed.layout().expanded(shape));
}

Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b, Dtype dtype) {
  check_same_device(operation, a.device(), b.device());
  if (a.shape() == b.shape() && a.dtype() == dtype && b.dtype() == dtype) {
    Tensor out = empty(a.shape(), {dtype, a.device()});
    backend(out).binary(op, a, b, out);
    return out;
  }
  const Shape shape = broadcast(operation, a.shape(), b.shape());
  Tensor out = empty(shape, {dtype, a.device()});
  backend(out).binary(op, as_operand(a, dtype, shape), as_operand(b, dtype, shape), out);
  return out;
}

Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b) {
  return binary(operation, op, a, b,
                a.dtype() == b.dtype() ? a.dtype() : promote(a.dtype(), b.dtype()));
}

Tensor compare(const char* operation, Compare op, const Tensor& a, const Tensor& b) {
  check_same_device(operation, a.device(), b.device());
  const Shape shape = broadcast(operation, a.shape(), b.shape());
  const Dtype dtype = promote(a.dtype(), b.dtype());
  Tensor out = empty(shape, {Dtype::boolean, a.device()});
  backend(out).compare(op, as_operand(a, dtype, shape), as_operand(b, dtype, shape), out);
  return out;
}

Tensor unary(Unary op, const Tensor& x) {
  Tensor out = empty_like(x);
  backend(out).unary(op, x, out);
  return out;
}

Tensor floating_unary(const char* operation, Unary op, const Tensor& x) {
  if (!is_floating(x.dtype())) wrong_dtype(operation, "float32 or float64", x.dtype());
  return unary(op, x);
}

/// What an operand was before it was broadcast and promoted: the way back for its gradient.
class Origin {
 public:
  explicit Origin(const Tensor& operand) : shape_(operand.shape()), dtype_(operand.dtype()) {}

  Tensor back(const Tensor& grad) const {
    if (grad.shape() == shape_ && grad.dtype() == dtype_) return grad;
    return cast(sum_to(grad, shape_), dtype_);
  }

 private:
  Shape shape_;
  Dtype dtype_;
};

/// maximum and minimum: the gradient goes to the operand that was chosen, half to each of equals.
Tensor choose(const char* operation, Binary op, Compare chosen, const Tensor& a, const Tensor& b) {
  return record(operation, binary(operation, op, a, b), inputs(a, b),
                [operation, chosen, a = Saved(a), b = Saved(b)](const Tensor& grad) {
                  const Tensor x = a.get(), y = b.get();
                  const Tensor tie = where(equal(x, y), grad * 0.5, scalar_beside(grad, 0));
                  const Tensor for_x = where(compare(operation, chosen, x, y), grad, tie);
                  const Tensor for_y = where(compare(operation, chosen, y, x), grad, tie);
                  return gradients(Origin(x).back(for_x), Origin(y).back(for_y));
                });
}

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

Tensor maximum(const Tensor& a, const Tensor& b) {
  return choose("maximum", Binary::maximum, Compare::greater, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return choose("minimum", Binary::minimum, Compare::less, a, b);
}

Tensor power(const Tensor& x, double exponent) {
  if (!is_floating(x.dtype())) wrong_dtype("power", "float32 or float64", x.dtype());
  const auto raise_to = [](const Tensor& x, double exponent) {
    return binary("power", Binary::power, x, scalar_beside(x, exponent));
  };
  return record("power", raise_to(x, exponent), inputs(x),
                [x = Saved(x), exponent, raise_to](const Tensor& grad) {
                  if (exponent == 0) return gradients(grad * 0.0);
                  return gradients(grad * raise_to(x.get(), exponent - 1) * exponent);
                });
}

Tensor negate(const Tensor& x) {
  return record("negate", unary(Unary::negate, x), inputs(x),
                [](const Tensor& grad) { return gradients(negate(grad)); });
}

Tensor absolute(const Tensor& x) {
  return record(
      "absolute", unary(Unary::absolute, x), inputs(x), [x = Saved(x)](const Tensor& grad) {
        const Tensor value = x.get(), zero = scalar_beside(value, 0);
        // The gradient at 0 is 0, the middle of -1 and 1.
        return gradients(where(greater(value, zero), grad, where(less(value, zero), -grad, zero)));
      });
}

Tensor exp(const Tensor& x) {
  const Tensor y = floating_unary("exp", Unary::exp, x);
  return record("exp", y, inputs(x),
                [y = Saved::output(y)](const Tensor& grad) { return gradients(grad * y.get()); });
}

Tensor log(const Tensor& x) {
  return record("log", floating_unary("log", Unary::log, x), inputs(x),
                [x = Saved(x)](const Tensor& grad) { return gradients(grad / x.get()); });
}

Tensor sqrt(const Tensor& x) {
  const Tensor y = floating_unary("sqrt", Unary::sqrt, x);
  return record("sqrt", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(grad / (y.get() * 2));
  });
}

Tensor square(const Tensor& x) {
  return record("square", unary(Unary::square, x), inputs(x),
                [x = Saved(x)](const Tensor& grad) { return gradients(grad * x.get() * 2); });
}

Tensor reciprocal(const Tensor& x) {
  const Tensor y = floating_unary("reciprocal", Unary::reciprocal, x);
  return record("reciprocal", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(-grad * square(y.get()));
  });
}

Tensor tanh(const Tensor& x) {
  const Tensor y = floating_unary("tanh", Unary::tanh, x);
  return record("tanh", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(binary("tanh", Binary::tanh_grad, grad, y.get()));
  });
}

Tensor sigmoid(const Tensor& x) {
  const Tensor y = floating_unary("sigmoid", Unary::sigmoid, x);
  return record("sigmoid", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(binary("sigmoid", Binary::sigmoid_grad, grad, y.get()));
  });
}

Tensor relu(const Tensor& x) {
  const Tensor y = unary(Unary::relu, x);
  return record("relu", y, inputs(x), [y = Saved::output(y)](const Tensor& grad) {
    return gradients(binary("relu", Binary::relu_grad, grad, y.get()));
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
                [condition = Saved(condition), a = Origin(a), b = Origin(b)](const Tensor& grad) {
                  const Tensor zero = scalar_beside(grad, 0);
                  return gradients(a.back(where(condition.get(), grad, zero)),
                                   b.back(where(condition.get(), zero, grad)));
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
