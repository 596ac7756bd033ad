// Defines differentiable element-wise operations on two tensors, and the operators.
//
// Two tensors are brought to their promoted dtype and broadcast shape (core/dtype.h, core/shape.h).
// A number beside a tensor takes the tensor's dtype; a fraction beside an integer tensor makes
// float32. Every function throws ShapeError for shapes that do not broadcast and DeviceError for
// different devices.
#pragma once

#include "core/tensor.h"

namespace capstan {

Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor negate(const Tensor& x);
/// True division: integers are divided as float32.
Tensor divide(const Tensor& a, const Tensor& b);
/// a / b rounded down, in the promoted dtype, and what is left of a, with the sign of b. Integers
/// throw ValueError if b holds a zero. The gradient of a floor is 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
/// The larger or smaller of two; where they are equal, each receives half of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// x to an exponent; floating point only.
Tensor power(const Tensor& x, double exponent);
Tensor power(const Tensor& x, const Tensor& exponent);
Tensor power(double x, const Tensor& exponent);
/// The angle of the point (x, y), in (-pi, pi]; floating point only.
Tensor atan2(const Tensor& y, const Tensor& x);

// Comparisons give bool and have no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

// Logic gives bool; anything but 0 counts as true.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

/// Elements of `a` where `condition` (bool) is true, else of `b`; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// A tensor holding `value`, of the dtype that a number takes beside `like`.
Tensor scalar_beside(const Tensor& like, double value);

// Beside a number.
inline Tensor equal(const Tensor& a, double b) { return equal(a, scalar_beside(a, b)); }
inline Tensor not_equal(const Tensor& a, double b) { return not_equal(a, scalar_beside(a, b)); }
inline Tensor less(const Tensor& a, double b) { return less(a, scalar_beside(a, b)); }
inline Tensor less_equal(const Tensor& a, double b) { return less_equal(a, scalar_beside(a, b)); }
inline Tensor greater(const Tensor& a, double b) { return greater(a, scalar_beside(a, b)); }
inline Tensor greater_equal(const Tensor& a, double b) {
  return greater_equal(a, scalar_beside(a, b));
}
inline Tensor maximum(const Tensor& a, double b) { return maximum(a, scalar_beside(a, b)); }
inline Tensor minimum(const Tensor& a, double b) { return minimum(a, scalar_beside(a, b)); }
inline Tensor floor_divide(const Tensor& a, double b) {
  return floor_divide(a, scalar_beside(a, b));
}
inline Tensor remainder(const Tensor& a, double b) { return remainder(a, scalar_beside(a, b)); }

/// The same values in another dtype; float to integer cuts towards zero.
Tensor cast(const Tensor& x, Dtype dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator-(const Tensor& x) { return negate(x); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, scalar_beside(a, b)); }
inline Tensor operator-(const Tensor& a, double b) { return subtract(a, scalar_beside(a, b)); }
inline Tensor operator*(const Tensor& a, double b) { return multiply(a, scalar_beside(a, b)); }
inline Tensor operator/(const Tensor& a, double b) { return divide(a, scalar_beside(a, b)); }
inline Tensor operator+(double a, const Tensor& b) { return add(scalar_beside(b, a), b); }
inline Tensor operator-(double a, const Tensor& b) { return subtract(scalar_beside(b, a), b); }
inline Tensor operator*(double a, const Tensor& b) { return multiply(scalar_beside(b, a), b); }
inline Tensor operator/(double a, const Tensor& b) { return divide(scalar_beside(b, a), b); }

}  // namespace capstan
