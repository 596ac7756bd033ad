// Defines train(), data-parallel training of an image classifier from the first step to the last.
//
// It is one loop, in train.cc, and what each line of it needs is a file of its own: train_options.h
// (what may be asked), image_model.h, evaluate.h, train_state.h (checkpoints), metrics.h,
// progress_bar.h, plot.h.
#pragma once

#include <optional>
#include <ostream>

#include "data/dataset.h"
#include "distributed/comm/communicator.h"
#include "models/evaluate.h"
#include "models/metrics.h"
#include "models/train_options.h"

namespace capstan::models {

struct TrainResult {
  int64_t step = 0;                 // steps since the run began, those before a resume included
  bool stopped = false;             // a signal ended the run before its last step
  std::optional<Evaluation> test;   // after the last step; none if stopped
  double samples_per_second = 0;    // over all ranks, without evaluation and saving
  double hidden_communication = 0;  // the share hidden behind backward, 0 to 1
  std::string weights_sha256;       // equal on all ranks
  std::vector<StepRecord> steps;    // as in Metrics
};

/// Trains and evaluates as the options say. A collective: every rank passes the same options, and
/// data sets that are the same; each works on its share of the samples. Rank 0 writes to `out` and
/// to the files that the options name. Throws ValueError for options that are impossible or do not
/// fit the data, and for a loss that is not finite; otherwise as what it uses: IoError, CommError.
TrainResult train(const TrainOptions& options, distributed::Communicator& communicator,
                  const data::Dataset& training_set, const data::Dataset& test_set,
                  std::ostream& out);

}  // namespace capstan::models
