// Defines Tokenizer: text to token numbers and back, by byte-level byte pair encoding (Sennrich,
// Haddow, Birch: "Neural machine translation of rare words with subword units", 2016; over bytes as
// in Radford et al.: "Language models are unsupervised multitask learners", 2019).
//
//   text       "lower"      the tokenizer's pattern cuts text into words
//   bytes      l o w e r    each byte of a word is a token
//   merges     lo w e r     the pair of neighbours that stands first in the list of merges becomes
//              low e r      one token, again and again, until no pair is in the list
//              low er
//
// Because every byte is a token, any bytes can be encoded, valid UTF-8 or not, and decode to
// themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::data {

class Tokenizer {
 public:
  /// Reads a tokenizer.json of Hugging Face's format: a BPE model, byte-level, with any patterns
  /// that split, and added tokens. Its post-processor is left out: encode() adds no tokens of its
  /// own. Throws IoError, naming the place, for what is damaged, and for what would give other
  /// tokens than promised (normalizers, other models).
  static Tokenizer from_json(const std::string& path);

  /// Reads GPT-2's pair of files, and cuts words by GPT-2's pattern. `special` tokens, such as
  /// "<|endoftext|>", must be in the vocabulary. Throws IoError as above.
  static Tokenizer from_vocabulary(const std::string& vocab_path, const std::string& merges_path,
                                   const std::vector<std::string>& special = {});

  /// The tokenizer without merges: every byte is the token of its number.
  static Tokenizer of_bytes();

  /// The tokens of any bytes. A special token's text becomes that token. Throws ValueError if the
  /// pattern gives up on the text, which needs one made for that.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same without special tokens: for text of strangers, in which "<|endoftext|>" is just text.
  std::vector<int64_t> encode_ordinary(std::string_view text) const;
  /// The bytes of the tokens. Throws ValueError for a number that is no token.
  std::string decode(std::span<const int64_t> tokens) const;

  /// One more than the largest token: the rows that an embedding needs.
  int64_t vocabulary_size() const;
  /// The number of a token with exactly these bytes, -1 if there is none.
  int64_t token(std::string_view bytes) const;

 private:
  struct Rules;
  explicit Tokenizer(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}
  std::shared_ptr<const Rules> rules_;  // never change, so threads and copies share them
};

}  // namespace capstan::data
