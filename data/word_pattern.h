// Defines WordPattern, a regular expression that cuts text into words before a tokenizer merges
// bytes inside each of them. Behind it is PCRE2, which knows the letters of all scripts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;  // PCRE2's pcre2_code

namespace capstan::data {

class WordPattern {
 public:
  /// Throws ValueError, with what PCRE2 says, for a pattern that is none.
  explicit WordPattern(std::string pattern);

  /// The matches in `text`, and what is left between them, in order: together all of it. Bytes that
  /// are not UTF-8 match nothing. Throws ValueError if matching takes too many steps.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  void split_valid(std::string_view text, std::vector<std::string_view>& out) const;

  std::string pattern_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

/// How many bytes of the beginning of `text` are UTF-8.
size_t valid_utf8(std::string_view text);

}  // namespace capstan::data
