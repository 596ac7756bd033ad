// Defines differentiable element-wise operations and the operators on tensors.
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
/// True division: integers are divided as float32.
Tensor divide(const Tensor& a, const Tensor& b);
/// The larger or smaller of two; where they are equal, each receives half of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// x to a fixed exponent; floating point only.
Tensor power(const Tensor& x, double exponent);

// These take floating point only, but for negate, absolute, square and relu.
Tensor negate(const Tensor& x);
Tensor absolute(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);

// Comparisons give bool and have no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

/// Elements of `a` where `condition` (bool) is true, else of `b`; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// The same values in another dtype; float to integer cuts towards zero.
Tensor cast(const Tensor& x, Dtype dtype);

/// A tensor holding `value`, of the dtype that a number takes beside `like`.
Tensor scalar_beside(const Tensor& like, double value);

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
