// Defines train(), data-parallel training of a classifier from the first step to the last.
//
// It is one loop, in train.cc, and what each line of it needs is a file of its own: train_options.h
// (what may be asked), task.h (what is trained), evaluate.h, train_state.h (checkpoints),
// metrics.h, progress_bar.h, plot.h.
#pragma once

#include <optional>
#include <ostream>

#include "distributed/comm/communicator.h"
#include "models/metrics.h"
#include "models/task.h"
#include "models/train_options.h"

namespace capstan::models {

struct TrainResult {
  int64_t step = 0;                 // steps since the run began, those before a resume included
  bool stopped = false;             // a signal ended the run before its last step
  std::optional<Evaluation> test;   // after the last step; none if stopped
  double samples_per_second = 0;    // over all ranks, without evaluation and saving
  double hidden_communication = 0;  // the share hidden behind backward, 0 to 1
  std::string weights_sha256;       // equal on all ranks
  std::string test_text;            // `test` in the task's words
  std::string speed_text;           // "5120 samples/s"
  std::vector<StepRecord> steps;    // as in Metrics
};

/// Trains and evaluates as the options say. A collective: every rank passes the same options, and a
/// task with the same model and data; each works on its share of the samples. Rank 0 writes to
/// `out` and to the files that the options name; all ranks write checkpoints. Throws ValueError for
/// options that do not fit the data, and for a loss that is not finite; otherwise as what it uses:
/// IoError, CommError.
TrainResult train(const TrainOptions& options, Task& task, distributed::Communicator& communicator,
                  std::ostream& out);

}  // namespace capstan::models
