// Defines the checks of options that most optimizers share. They throw ValueError, with a message
// such as "[adamw] beta1 must be in [0, 1), got 1".
#pragma once

namespace capstan::optim {

/// In [0, 1).
void check_fraction(const char* owner, const char* option, double value);
/// Above 0 and finite.
void check_positive(const char* owner, const char* option, double value);
/// At least 0 and finite.
void check_not_negative(const char* owner, const char* option, double value);

}  // namespace capstan::optim
