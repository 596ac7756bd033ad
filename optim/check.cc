#include "optim/check.h"

#include <cmath>

#include "core/raise.h"

namespace capstan::optim {

void check_fraction(const char* owner, const char* option, double value) {
  if (value >= 0 && value < 1) return;
  raise<ValueError>("[{}] {} must be in [0, 1), got {}", owner, option, value);
}

void check_positive(const char* owner, const char* option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  raise<ValueError>("[{}] {} must be a number above 0, got {}", owner, option, value);
}

void check_not_negative(const char* owner, const char* option, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  raise<ValueError>("[{}] {} must be a number >= 0, got {}", owner, option, value);
}

}  // namespace capstan::optim
