// Defines generate(), which lets a language model write.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/classifier.h"

namespace capstan::models {

struct GenerateOptions {
  int64_t count = 0;       // tokens to write
  int64_t context = 0;     // the most tokens that the model may see
  double temperature = 1;  // logits are divided by it; 0: the likeliest token, always
  uint64_t seed = 0;
};

/// The tokens that follow `prompt`, one after the other, each drawn from what `model` makes of the
/// last `context` tokens before it. The model takes tokens [1, n] and gives logits [n, vocabulary].
/// A token depends on the model, the prompt, the options and its number, and on nothing else: not
/// on threads, not on the default generator. Throws ValueError for an empty prompt, a context below
/// 1, a negative count, or a temperature that is negative or not finite.
std::vector<int64_t> generate(const Classifier& model, std::span<const int64_t> prompt,
                              const GenerateOptions& options);

/// Tokens [1, n] to the logits of the token that follows.
using NextLogits = std::function<std::vector<double>(const Tensor& tokens)>;
/// The same for a model that several ranks run: a collective of them if `next` is one.
std::vector<int64_t> generate(const NextLogits& next, std::span<const int64_t> prompt,
                              const GenerateOptions& options);

}  // namespace capstan::models
