#include "models/option_reader.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

#include "core/raise.h"

namespace capstan::models {
namespace {

/// Refuses what is not a T: CLI11 makes a number that is too large the largest.
template <class T>
std::string check_integer(const std::string& text) {
  T value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  using Limits = std::numeric_limits<T>;
  return fmt::format("expected an integer in [{}, {}], got {}", Limits::min(), Limits::max(), text);
}

/// The type of an option's value, whether it may be left open or not (never called).
template <class T>
T value_of(const std::optional<T>&);
template <class T>
T value_of(const T&);

}  // namespace

OptionReader::OptionReader(const std::string& about) : app_(std::make_unique<CLI::App>(about)) {
  app_->option_defaults()->always_capture_default();
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

OptionReader::~OptionReader() = default;

OptionReader& OptionReader::group(const std::string& heading) {
  heading_ = heading;
  return *this;
}

OptionReader& OptionReader::add(const std::string& option, Field field, const std::string& help) {
  last_ = std::visit(
      [&](auto* field) -> CLI::Option* {
        using Value = decltype(value_of(*field));
        if constexpr (std::is_same_v<Value, bool>) {
          return app_->add_flag(option, *field, help);
        } else {
          CLI::Option* added = app_->add_option(option, *field, help);
          if constexpr (std::is_integral_v<Value>) added->check(check_integer<Value>, "");
          return added;
        }
      },
      field);
  last_->group(heading_);
  return *this;
}

OptionReader& OptionReader::excludes(const std::string& other) {
  last_->excludes(app_->get_option(other));
  return *this;
}

OptionReader& OptionReader::of_rank() {
  last_->configurable(false);  // which config_to_str() leaves out
  return *this;
}

std::string OptionReader::read(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app_->help();
  } catch (const CLI::ParseError& error) {
    raise<ValueError>("[options] {} (--help lists the options)", error.what());
  }
  return "";
}

bool OptionReader::given(const std::string& option) const { return app_->count(option) > 0; }

std::string OptionReader::shared() const { return app_->config_to_str(); }

}  // namespace capstan::models
