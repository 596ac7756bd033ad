// Defines Plateau, the schedule that lowers the rate when a metric stops getting better.
//
// It is a function of the whole history of the metric, which a run has in its records: a resumed
// run reads its records and goes on.
#pragma once

#include <cstdint>
#include <span>

namespace capstan::optim {

struct Plateau {
  double rate;
  double factor = 0.1;      // of the rate, each time
  int64_t patience = 10;    // metrics that may be no better; one more lowers the rate
  double threshold = 1e-4;  // what counts as better: by more than this part of the best
  int64_t cooldown = 0;     // metrics after a lowering that do not count as no better
  double floor = 0;         // the rate does not fall below
  bool rising = false;      // true for a metric that is to rise (an accuracy)

  /// The rate after these metrics, oldest first; `rate` for none. NaN is never better. Throws
  /// ValueError for constants that make no sense.
  double operator()(std::span<const double> metrics) const;
};

}  // namespace capstan::optim
