// Defines Pause, what a wait does between two looks at what it waits for.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace capstan::distributed {

/// The first looks follow at once, for ranks that meet within microseconds; then the core goes to
/// whoever wants it, for 5 us at first and, since a long wait need not end to the microsecond, for
/// at most 100 us. (A thread that wakes up from a short sleep gets its core at once, even from a
/// thread that computes; one that yields waits for that thread's whole time slice.)
class Pause {
 public:
  void operator()() {
    if (++looks_ <= kSpins) return;
    // The kernel may add 50 us to a sleep unless a thread asks for less.
    thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    (void)precise;
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ + sleep_ / 2, kLongest);
  }

 private:
  static constexpr int kSpins = 100;
  static constexpr std::chrono::nanoseconds kLongest{100'000};
  int looks_ = 0;
  std::chrono::nanoseconds sleep_{5'000};
};

}  // namespace capstan::distributed
