#include "models/option_checks.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"

namespace capstan::models {
namespace {

template <class T>
void require_that(bool holds, const char* option, const std::string& rule, const T& value) {
  if (!holds) raise<ValueError>("[options] {} must be {}, got {}", option, rule, value);
}

}  // namespace

void require(bool holds, const char* option, const char* rule, double value) {
  require_that(holds, option, rule, value);
}

void require(bool holds, const char* option, const char* rule, int64_t value) {
  require_that(holds, option, rule, value);
}

void require(bool holds, const char* option, const std::string& rule, const std::string& value) {
  require_that(holds, option, rule, value);
}

void require_positive(const char* option, std::optional<double> value) {
  if (value) require(*value > 0 && std::isfinite(*value), option, "above 0", *value);
}

void require_count(const char* option, std::optional<int64_t> value, int64_t most) {
  if (!value) return;
  require_that(*value >= 1 && *value <= most, option, fmt::format("in [1, {}]", most), *value);
}

void require_choice(const char* option, const std::string& value,
                    std::initializer_list<const char*> choices) {
  std::string rule;  // "a, b or c"
  for (const char* const* choice = choices.begin(); choice != choices.end(); ++choice) {
    if (choice != choices.begin()) rule += choice + 1 == choices.end() ? " or " : ", ";
    rule += *choice;
  }
  const bool found = std::find(choices.begin(), choices.end(), value) != choices.end();
  require(found, option, rule, value);
}

}  // namespace capstan::models
