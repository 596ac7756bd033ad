// Defines Report, everything that a training run tells the outside while it goes on: metrics,
// progress bar and plot, written by rank 0. Other ranks keep the record in memory only.
#pragma once

#include <ostream>

#include "models/metrics.h"
#include "models/progress_bar.h"
#include "models/task.h"
#include "models/train_options.h"

namespace capstan::models {

class Report {
 public:
  /// Of a run of `task`, which must outlive this, that goes from `step` to `last_step`, in epochs
  /// of `steps_per_epoch`. Makes the folders of all output files and sees that all can be written,
  /// so that a run does not fail after hours. A collective: throws SharedError on every rank for an
  /// output that cannot be written, or that would overwrite another one.
  Report(const TrainOptions& options, const Task& task, distributed::Communicator& communicator,
         std::ostream& out, int64_t step, int64_t last_step, int64_t steps_per_epoch);

  /// A step that took `samples` samples and `seconds` seconds; `accuracy` is that of this rank's.
  void step(StepRecord record, double accuracy, int64_t samples, double seconds);
  /// An evaluation after `step`, which is of `epoch` (both count from 1); draws the plot anew.
  void evaluation(int64_t step, int64_t epoch, const Evaluation& evaluation);

  const Metrics& metrics() const { return metrics_; }
  /// Of all steps reported here.
  double samples_per_second() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }

 private:
  const Task& task_;
  std::string plot_, title_;
  Metrics metrics_;
  ProgressBar bar_;
  double samples_ = 0, seconds_ = 0;
};

}  // namespace capstan::models
