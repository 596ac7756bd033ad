#include "models/stop_signal.h"

#include <atomic>
#include <chrono>
#include <csignal>

#include "distributed/comm/last_words.h"

namespace capstan::models {
namespace {

using Clock = std::chrono::steady_clock;

// When the first signal came; 0: none has. Lock-free, so that a signal handler may use it.
std::atomic<Clock::rep> first_request{0};

void request_stop(int signal) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep first = 0;
  if (first_request.compare_exchange_strong(first, now)) {
    distributed::LastWords::speak();
    return;
  }
  if (Clock::duration(now - first) <= kSameRequest) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() { return first_request != 0; }

}  // namespace capstan::models
