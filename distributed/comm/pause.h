// Defines Pause, what a wait does between two looks at what it waits for.
#pragma once

#include <chrono>

namespace capstan::distributed {

/// The first looks follow at once, for ranks that meet within microseconds; then the core goes to
/// whoever wants it, for 5 us at first and, since a long wait need not end to the microsecond, for
/// at most 100 us. (A thread that wakes up from a short sleep gets its core at once, even from a
/// thread that computes; one that yields waits for that thread's whole time slice.)
class Pause {
 public:
  void operator()() {
    if (++looks_ > kSpins) sleep();
  }

 private:
  void sleep();

  static constexpr int kSpins = 100;
  static constexpr std::chrono::nanoseconds kLongest{100'000};
  int looks_ = 0;
  std::chrono::nanoseconds sleep_{5'000};
};

}  // namespace capstan::distributed
