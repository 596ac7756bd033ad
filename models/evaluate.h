// Defines evaluate(), which measures a model on a test set with all ranks.
#pragma once

#include <functional>
#include <optional>

#include "data/dataset.h"
#include "distributed/comm/communicator.h"
#include "models/classifier.h"

namespace capstan::models {

/// How many of the logits' rows [n, classes] are largest at their label [n].
int64_t count_correct(const Tensor& logits, const Tensor& labels);

/// What a model makes of a data set.
struct Evaluation {
  int64_t samples = 0;  // labels: one for each image, or for each place of a text
  int64_t correct = 0;
  double loss = 0;  // mean over the labels; NaN if there are none, as is the accuracy

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

/// Inputs of a batch, which may be empty, to its logits, or to nothing where there are none or
/// another rank has and counts them.
using LogitsOf = std::function<std::optional<Tensor>(const Tensor& inputs)>;

/// Every sample counts exactly once, on any number of ranks, none of which needs to have as many as
/// another. `batch` samples at a time on each rank. A collective; all ranks get the same answer.
Evaluation evaluate(const Classifier& model, const data::Dataset& dataset,
                    distributed::Communicator& communicator, int64_t batch = 256);
/// The same where several ranks compute one model: of `parts` parts of the data this rank, and
/// those it shares a copy of the model with, take number `part`.
Evaluation evaluate(const LogitsOf& logits_of, const data::Dataset& dataset, int64_t part,
                    int64_t parts, distributed::Communicator& communicator, int64_t batch);

}  // namespace capstan::models
