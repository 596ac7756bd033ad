// Defines Bpe, the tokens of a byte-level tokenizer and the merges that build them.
//
// In files a token is written in printable characters: a byte that is printable stands for itself,
// the others for the characters from U+0100 on, in order, so that a space is "Ġ".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace capstan::data {

class Bpe {
 public:
  /// Adds a token under its written form. Throws ValueError for a number outside [0, 2^31), one
  /// that is taken, or a form that stands for no bytes.
  void add_token(const std::string& written, int64_t token);
  /// Adds the token of one byte.
  void add_byte(char byte, int64_t token);
  /// Adds a token that stands for `text` itself and takes no part in merges, unless there is one of
  /// that number and text. Throws ValueError as above.
  void add_literal(const std::string& text, int64_t token);
  /// Adds a merge of two tokens' written forms, which comes after those before. Throws ValueError
  /// if one of them, or both together, is no token.
  void add_merge(const std::string& left, const std::string& right);
  /// To be called after all tokens. Throws ValueError if there is a byte that is no token.
  void finish();

  /// Words that are tokens as a whole become that token, whatever the merges say.
  void set_whole_words(bool whole_words) { whole_words_ = whole_words; }

  /// Appends the tokens of a word.
  void encode(std::string_view word, std::vector<int64_t>& out) const;
  /// The bytes of a token, null for a number that is none.
  const std::string* bytes(int64_t token) const;
  /// The token of exactly these bytes, literal ones left out.
  std::optional<int64_t> find(std::string_view bytes) const;
  /// One more than the largest token.
  int64_t size() const { return size_; }

 private:
  void add(const std::string& bytes, int64_t token);

  struct Merge {
    int64_t rank, token;
  };
  const Merge* merge_of(int64_t left, int64_t right) const;

  std::unordered_map<int64_t, std::string> bytes_of_;
  std::unordered_map<std::string, int64_t> token_of_;
  std::unordered_map<uint64_t, Merge> merges_;  // by both tokens, 32 bits each
  std::array<int64_t, 256> byte_tokens_{};
  int64_t size_ = 0, ranks_ = 0;
  bool whole_words_ = false;
};

/// The bytes that a token's written form stands for, none if it has another character.
std::optional<std::string> bytes_of_written(std::string_view written);

}  // namespace capstan::data
