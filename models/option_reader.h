// Defines OptionReader, which reads a command line into the fields of a struct. Behind it is CLI11,
// which no header here includes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace capstan::models {

class OptionReader {
 public:
  /// `about` is what the help text begins with.
  explicit OptionReader(const std::string& about);
  ~OptionReader();

  /// The heading of the options that are added from here on; headings may come again.
  OptionReader& group(const std::string& heading);
  /// An option that sets `field`, which holds its default; a flag if it is a bool. Where one is
  /// given twice the last one counts, so that a script's options can be followed by a person's.
  template <class T>
  OptionReader& add(const std::string& option, T& field, const std::string& help) {
    return add(option, Field(&field), help);
  }
  /// The option that was added last may not be given beside `other`.
  OptionReader& excludes(const std::string& other);
  /// Ranks need not agree on the option that was added last.
  OptionReader& of_rank();

  /// Reads `argv`. If the user asked for help, returns that text, else "". Throws ValueError for
  /// what is no option, and for a value of another type or out of its range.
  std::string read(int argc, const char* const* argv);
  /// Whether the option was given.
  bool given(const std::string& option) const;
  /// The options given, one a line, without those of_rank().
  std::string shared() const;

 private:
  using Field =
      std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::optional<int64_t>*,
                   std::optional<uint64_t>*, std::optional<double>*, std::optional<std::string>*>;
  OptionReader& add(const std::string& option, Field field, const std::string& help);

  std::unique_ptr<CLI::App> app_;
  CLI::Option* last_ = nullptr;
  std::string heading_;
};

}  // namespace capstan::models
