#include "data/word_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "core/raise.h"

namespace capstan::data {
namespace {

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// Bytes of the UTF-8 character at the beginning of `text`, 0 if there is none (RFC 3629).
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return 1;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return 0;
  uint32_t code = byte(0) & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const uint32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || code > 0x10ffff || surrogate ? 0 : size;
}

}  // namespace

size_t valid_utf8(std::string_view text) {
  size_t size = 0;
  while (const size_t next = character_bytes(text.substr(size))) size += next;
  return size;
}

WordPattern::WordPattern(std::string pattern) : pattern_(std::move(pattern)) {
  int error = 0;
  size_t offset = 0;
  code_.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr),
      [](const pcre2_code* code) { pcre2_code_free(const_cast<pcre2_code*>(code)); });
  if (!code_) {
    raise<ValueError>("[WordPattern] the pattern \"{}\" is wrong at byte {}: PCRE2 says \"{}\"",
                      pattern_.substr(0, 200), offset, message_of(error));
  }
}

std::vector<std::string_view> WordPattern::split(std::string_view text) const {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t valid = valid_utf8(text);
    if (valid > 0) split_valid(text.substr(0, valid), words);
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size() && character_bytes(text.substr(invalid)) == 0) ++invalid;
    if (invalid > 0) words.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return words;
}

void WordPattern::split_valid(std::string_view text, std::vector<std::string_view>& out) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  // Checked once here, or PCRE2 would check all the rest of the text for each word of it.
  constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  size_t done = 0;
  while (done < text.size()) {
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), done, kOptions, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      raise<ValueError>("[WordPattern] the pattern \"{}\" gives up at byte {}: PCRE2 says \"{}\"",
                        pattern_.substr(0, 200), done, message_of(found));
    }
    const size_t begin = pcre2_get_ovector_pointer(match.get())[0];
    const size_t end = pcre2_get_ovector_pointer(match.get())[1];
    if (begin < done || end <= begin) {  // \K may move the ends
      raise<ValueError>("[WordPattern] the pattern \"{}\" matches backwards",
                        pattern_.substr(0, 200));
    }
    if (begin > done) out.push_back(text.substr(done, begin - done));
    out.push_back(text.substr(begin, end - begin));
    done = end;
  }
  if (done < text.size()) out.push_back(text.substr(done));
}

}  // namespace capstan::data
