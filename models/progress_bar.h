// Defines ProgressBar, what a person sees while a model trains:
//
//   2/5 [===>      ] loss 0.4312, accuracy 84.7 %, 5120 samples/s, 1:23 left
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "distributed/comm/work.h"  // Clock
#include "models/smooth.h"

namespace capstan::models {

enum class ProgressStyle {
  bar,    // one line that is written over again and again: for terminals
  lines,  // a new line every ten seconds: for files
  none,   // not even messages
};

/// "bar", "lines" or "none"; "auto" is a bar if a terminal shows what this program prints.
ProgressStyle progress_style(const std::string& name);

class ProgressBar {
 public:
  /// Of a run of `epochs` epochs that has taken `step` of its `steps` steps.
  ProgressBar(std::ostream& out, ProgressStyle style, int64_t epochs, int64_t steps, int64_t step);
  ~ProgressBar();

  /// After a step of epoch `epoch` (from 1): its loss and accuracy, and the samples and seconds
  /// that it took.
  void step(int64_t epoch, double loss, double accuracy, int64_t samples, double seconds);
  /// Prints a line of its own.
  void message(const std::string& text);

 private:
  std::string text(int64_t epoch) const;

  std::ostream& out_;
  const ProgressStyle style_;
  const int64_t epochs_, steps_;
  int64_t step_;
  Smooth loss_{50}, accuracy_{50}, samples_{50}, seconds_{50};
  distributed::Clock::time_point next_draw_;
  bool drawn_ = false;  // the cursor stands behind a bar
};

}  // namespace capstan::models
