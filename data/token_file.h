// Defines TokenDataset, a long row of tokens as samples for a language model, and write_tokens(),
// which makes files of such rows.
//
// A file is the tokens and nothing else: each an unsigned number of 2 or 4 bytes, little endian (as
// nanoGPT, Megatron and others keep them). It is mapped, so it may be larger than the memory.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"

namespace capstan::data {

struct TokenOptions {
  int64_t context = 0;      // tokens of a sample; must be given
  int64_t stride = 0;       // from one sample's begin to the next's; 0: context
  int64_t token_bytes = 2;  // 2 or 4
  int64_t vocabulary = 0;   // if not 0, tokens must be below it
};

/// Sample i has as inputs the `context` tokens from i * stride on, and as labels the tokens that
/// follow each of them. Tokens at the end that fill no sample are left out.
class TokenDataset : public Dataset {
 public:
  /// Throws IoError for a file that is missing or no whole number of tokens, ValueError for options
  /// out of range.
  TokenDataset(const std::string& path, const TokenOptions& options);
  /// Of tokens in memory. Throws ValueError as write_tokens() does for those that do not fit.
  TokenDataset(std::span<const int64_t> tokens, const TokenOptions& options);

  /// The samples within the tokens from `begin` to before `end`, without a copy. Throws ValueError
  /// unless 0 <= begin <= end <= tokens().
  TokenDataset part(int64_t begin, int64_t end) const;

  int64_t context() const { return options_.context; }
  int64_t tokens() const { return std::ssize(bytes_) / options_.token_bytes; }
  /// The token at a place in [0, tokens()). Throws IoError for one outside the vocabulary.
  int64_t token(int64_t position) const;
  int64_t size() const override;
  /// Inputs and labels int64 [n, context]. Throws IoError for a token outside the vocabulary.
  Batch batch(std::span<const int64_t> indices) const override;

 private:
  TokenOptions options_;
  std::string name_;  // of the file
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

/// Writes a file for TokenDataset, atomically. Throws ValueError for a token that does not fit.
void write_tokens(const std::string& path, std::span<const int64_t> tokens,
                  int64_t token_bytes = 2);

}  // namespace capstan::data
