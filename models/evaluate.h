// Defines evaluate(), which measures a model on a test set with all ranks.
#pragma once

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

/// Every sample counts exactly once, on any number of ranks, none of which needs to have as many as
/// another. `batch` samples at a time on each rank. A collective; all ranks get the same answer.
Evaluation evaluate(const Classifier& model, const data::Dataset& dataset,
                    distributed::Communicator& communicator, int64_t batch = 256);

}  // namespace capstan::models
