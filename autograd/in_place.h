// Defines operations that change elements in place: of a tensor, or of a view of its parts.
//
//   assign(slice(x, 0, 1, 3), y);
//   select(x, 1, -1) *= 2;
//
// The tape records them. From then on `x`, every handle of it and every view of it, taken before or
// after, is the result of the change; what used the old elements keeps its gradient, or throws
// GradientError in backward if it saved the elements that are gone. (Written as where() and cat()
// would be, with a copy of the elements where a gradient needs the old ones: that is the price.)
// Where no gradient is wanted, and inside no_grad(), they only write.
//
// Not recorded but refused, with GradientError: a change of a leaf that requires a gradient, or of
// its views (inside no_grad() it is fine); of a tensor that detach(), view_of() or no_grad() made
// over memory that others hold; of a part of a tensor that is not contiguous. A tensor whose
// elements change through another one over the same memory, of which it is neither view nor base,
// throws when it is used; a detach() goes on as the constant that it is. A tape thrown away before
// backward stays in memory if a change in place depends on a saved value that it overwrote:
// backward would have thrown.
//
// All throw ShapeError for a value that does not broadcast to the target, or a target that repeats
// its elements; DeviceError; DtypeError where a whole number would become a fraction or a bool a
// number (assign() and assign_where() convert). Between floating-point dtypes the result is rounded
// to the target's.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// Writes `value`, broadcast and converted, into the elements of `target`.
void assign(const Tensor& target, const Tensor& value);
/// Throws ValueError for a value that an integer dtype cannot hold.
void assign(const Tensor& target, double value);
/// The same where `mask` (bool, broadcast to the target) is true.
void assign_where(const Tensor& target, const Tensor& mask, const Tensor& value);
void assign_where(const Tensor& target, const Tensor& mask, double value);

void add_in_place(const Tensor& target, const Tensor& value);
void subtract_in_place(const Tensor& target, const Tensor& value);
void multiply_in_place(const Tensor& target, const Tensor& value);
void divide_in_place(const Tensor& target, const Tensor& value);

// Handles share elements: x += y changes every handle of x, as in PyTorch. x = x + y does not.
const Tensor& operator+=(const Tensor& target, const Tensor& value);
const Tensor& operator-=(const Tensor& target, const Tensor& value);
const Tensor& operator*=(const Tensor& target, const Tensor& value);
const Tensor& operator/=(const Tensor& target, const Tensor& value);
const Tensor& operator+=(const Tensor& target, double value);
const Tensor& operator-=(const Tensor& target, double value);
const Tensor& operator*=(const Tensor& target, double value);
const Tensor& operator/=(const Tensor& target, double value);

}  // namespace capstan
