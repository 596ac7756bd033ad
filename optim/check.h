// Defines the checks that optimizers share: of options, of parameters, of gradients.
#pragma once

#include "core/tensor.h"

namespace capstan::optim {

// Options. They throw ValueError with a message such as "[adamw] beta1 must be in [0, 1), got 1".

/// In [0, 1).
void check_fraction(const char* owner, const char* option, double value);
/// Above 0 and finite.
void check_positive(const char* owner, const char* option, double value);
/// At least 0 and finite.
void check_not_negative(const char* owner, const char* option, double value);

/// What the step of an element depends on: that element's own gradients alone, or others of its
/// tensor too (norms, factors, products of matrices).
enum class Sees { elements, tensors };

/// What an optimizer is called in messages, and what it sees.
struct Kind {
  const char* name;
  Sees sees;
};

/// Throws ValueError for a name or a parameter that comes twice, for one that is not contiguous,
/// and as check_whole() does for an optimizer that sees tensors; DtypeError for integers,
/// GradientError for a result of an operation.
void check_parameters(const Kind& optimizer, const NamedTensors& parameters);

/// Throws ValueError, which says what to do instead, if a parameter is one rank's part of a larger
/// one: a shard of Fsdp, a slice of TensorParallel. `owner` would take it for all of it.
void check_whole(const char* owner, const NamedTensors& parameters, const char* instead);

/// Throws GradientError if a gradient is one rank's share that was not reduced.
void check_reduced(const NamedTensors& parameters);

}  // namespace capstan::optim
