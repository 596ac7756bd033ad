// Defines Task, all in which one training differs from another: a model, its data, and the words
// for what it has reached.
#pragma once

#include "data/dataset.h"
#include "distributed/context_parallel/context_parallel.h"
#include "distributed/tensor_parallel/plan.h"
#include "models/classifier.h"
#include "models/evaluate.h"

namespace capstan::models {

class Strategy;

struct Task {
  std::string name;  // of the model; a checkpoint continues only a run whose task has the same
  Classifier model;  // recorded, so that no rank needs memory for all of it; or made
  const data::Dataset& training_set;
  const data::Dataset& test_set;
  int64_t test_batch = 256;  // samples evaluated at a time by each rank

  /// An evaluation in words: what counts most ("test accuracy 91.20 %"), and what else there is.
  std::function<std::string(const Evaluation&)> result = {}, details = {};

  std::string accuracy = "test accuracy";  // what a plot calls it

  /// Speed is told in these.
  std::string unit = "samples";
  int64_t units_per_sample = 1;

  /// How the layers are cut for ranks that share them; none: they cannot be.
  std::optional<distributed::TensorPlan> tensor_plan = {};
  /// Where sequences are cut for ranks that share them; none: there are no sequences.
  std::optional<distributed::ContextOptions> context = {};
  /// What is added to the loss of a batch after its forward pass; none: nothing.
  std::function<Tensor()> more_loss = {};
  /// What the trained model is used for in the end. A collective.
  std::function<void(Strategy&)> finally = {};
};

}  // namespace capstan::models
