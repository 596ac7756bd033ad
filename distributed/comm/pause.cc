// Implements Pause.
#include "distributed/comm/pause.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace capstan::distributed {

void Pause::sleep() {
  // The kernel may add 50 us to a sleep, unless a thread asks for less.
  thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
  static_cast<void>(precise);
  std::this_thread::sleep_for(sleep_);
  sleep_ = std::min(sleep_ + sleep_ / 2, kLongest);
}

}  // namespace capstan::distributed
