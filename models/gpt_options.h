// Defines GptOptions, what a user may ask of train_gpt.
#pragma once

#include "data/king_james.h"
#include "models/gpt.h"
#include "models/train_options.h"

namespace capstan::models {

struct GptOptions : TrainOptions {
  static constexpr const char* kAbout =
      "Trains a GPT on a text, alone or on many ranks, and lets it write:\n"
      "  train_gpt --steps 500 --sample 300\n"
      "  mpirun -np 4 train_gpt --global-batch 32 --text book.txt --tokenizer tokenizer.json";

  GptOptions() {
    optimizer = "adamw";
    epochs = 1;
    batch = 16;
    clip = 1;
  }

  GptShape shape;  // but for the vocabulary, which is the tokenizer's

  // Data: tokens of 2 bytes in a file if given (4 for a vocabulary that needs them), else a text.
  std::string text = data::kKingJamesFile;
  std::string tokens;
  std::string tokenizer;  // a tokenizer.json; none: a byte is a token

  // What rank 0 writes at the end.
  int64_t sample = 0;  // tokens
  std::string prompt = "\n";
  double temperature = 1;
  uint64_t sample_seed = 0;
};

/// As for TrainOptions.
void check(const GptOptions& options);
void list(GptOptions& options, OptionReader& reader);

}  // namespace capstan::models
