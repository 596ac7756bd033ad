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

/// Throws ValueError for a name or a parameter that comes twice and for one that is not contiguous,
/// DtypeError for integers, GradientError for a result of an operation.
void check_parameters(const NamedTensors& parameters);

/// Throws GradientError if a gradient is one rank's share that was not reduced.
void check_reduced(const NamedTensors& parameters);

}  // namespace capstan::optim
