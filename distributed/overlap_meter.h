// Defines OverlapMeter, which waits for communication and counts how much of it was hidden.
#pragma once

#include <algorithm>

#include "distributed/comm/work.h"
#include "distributed/gradient_path.h"

namespace capstan::distributed {

class OverlapMeter {
 public:
  /// Waits for a call. Works are waited for in the order in which they were started.
  void wait(const Work& work) {
    const auto begin = Clock::now();
    work.wait();
    const auto from = std::max(work.started(), busy_until_);
    busy_until_ = std::max(busy_until_, work.finished());
    if (busy_until_ > from) total_.communication += seconds(busy_until_ - from);
    const auto exposed_from = std::max(from, begin);
    if (busy_until_ > exposed_from) total_.exposed += seconds(busy_until_ - exposed_from);
  }

  /// Sums over all calls so far.
  const Overlap& total() const { return total_; }

 private:
  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

  Clock::time_point busy_until_{};  // the communication that was counted
  Overlap total_;
};

}  // namespace capstan::distributed
