// Defines how impossible options are refused: in one line that names the option, its rule and what
// was given. All throw ValueError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace capstan::models {

/// "[options] --rate must be above 0, got -1", unless it holds.
void require(bool holds, const char* option, const char* rule, double value);
void require(bool holds, const char* option, const char* rule, int64_t value);
void require(bool holds, const char* option, const std::string& rule, const std::string& value);

/// Above 0 and finite, if given.
void require_positive(const char* option, std::optional<double> value);
/// In [1, most], if given.
void require_count(const char* option, std::optional<int64_t> value, int64_t most);
/// One of `choices`.
void require_choice(const char* option, const std::string& value,
                    std::initializer_list<const char*> choices);

}  // namespace capstan::models
