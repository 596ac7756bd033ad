#include "models/text_set.h"

#include "core/raise.h"
#include "core/sha256.h"
#include "data/bytes.h"
#include "data/text.h"

namespace capstan::models {
namespace {

data::Tokenizer read_tokenizer(const GptOptions& options) {
  return options.tokenizer.empty() ? data::Tokenizer::of_bytes()
                                   : data::Tokenizer::from_json(options.tokenizer);
}

data::TokenDataset read_tokens(const GptOptions& options, const data::Tokenizer& tokenizer,
                               std::string& digest) {
  const int64_t vocabulary = tokenizer.vocabulary_size();
  const data::TokenOptions rules{.context = options.shape.context,
                                 .token_bytes = vocabulary > 1 << 16 ? 4 : 2,
                                 .vocabulary = vocabulary};
  if (!options.tokenizer.empty()) {
    digest = "tokenizer " + sha256_hex(data::MappedFile(options.tokenizer).bytes()) + ", ";
  }
  if (!options.tokens.empty()) {
    digest += "tokens " + sha256_hex(data::MappedFile(options.tokens).bytes());
    return data::TokenDataset(options.tokens, rules);
  }
  const std::string text = data::read_text(options.text);
  digest += "text " + sha256_hex(std::as_bytes(std::span(text)));
  return data::TokenDataset(tokenizer.encode_ordinary(text), rules);
}

}  // namespace

TextSet::TextSet(const GptOptions& options)
    : tokenizer(read_tokenizer(options)),
      all(read_tokens(options, tokenizer, digest)),
      training(all.part(0, all.tokens() - all.tokens() / 10)),
      validation(all.part(all.tokens() - all.tokens() / 10, all.tokens())) {
  for (int64_t i = 0; i < all.tokens(); ++i) all.token(i);  // throws, before hours of training
  if (validation.size() > 0) return;
  raise<ValueError>(
      "[train_gpt] {} has {} tokens, and the last tenth of them, for validation, must be more than "
      "--context {}: take a longer text or a shorter context",
      options.tokens.empty() ? options.text : options.tokens, all.tokens(), options.shape.context);
}

double TextSet::bytes_per_token() const {
  const int64_t labels = validation.size() * validation.context();
  int64_t bytes = 0;
  for (int64_t i = 1; i <= labels; ++i) {
    const int64_t token = validation.token(i);
    bytes += std::ssize(tokenizer.decode({&token, 1}));
  }
  return static_cast<double>(bytes) / static_cast<double>(labels);
}

}  // namespace capstan::models
