// Defines TextSet, a text cut into tokens, to train a language model on and to validate it with.
#pragma once

#include "data/token_file.h"
#include "data/tokenizer.h"
#include "models/gpt_options.h"

namespace capstan::models {

struct TextSet {
  /// Reads what the options name. Throws IoError for a file that is missing or damaged, or that has
  /// a token outside the vocabulary; ValueError for a text too short for the context.
  explicit TextSet(const GptOptions& options);

  data::Tokenizer tokenizer;
  std::string digest;  // SHA-256 sums of the files: ranks compare it before they train together
  data::TokenDataset all, training, validation;  // the last tenth is for validation

  /// The mean over the labels of `validation`: what makes losses of different tokens comparable.
  double bytes_per_token() const;
};

}  // namespace capstan::models
