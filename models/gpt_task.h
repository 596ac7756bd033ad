// Defines language modelling with a Gpt as a Task: each place of a text is labelled with the token
// that follows.
#pragma once

#include "models/gpt_options.h"
#include "models/text_set.h"
#include "models/train.h"

namespace capstan::models {

/// Of an evaluation, over bytes instead of tokens, so that models with different tokens compare.
double bits_per_byte(const Evaluation& evaluation, double bytes_per_token);

/// As train() with a Task, and with a new model; then rank 0 writes the sample that the options ask
/// for to `out`. Throws ValueError for options that are impossible, too.
TrainResult train(const GptOptions& options, const TextSet& text,
                  distributed::Communicator& communicator, std::ostream& out);

}  // namespace capstan::models
