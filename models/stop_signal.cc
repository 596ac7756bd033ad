#include "models/stop_signal.h"

#include <atomic>
#include <chrono>
#include <csignal>

namespace capstan::models {
namespace {

using Clock = std::chrono::steady_clock;

// Lock-free, so that a signal handler may use them.
std::atomic<bool> requested{false};
std::atomic<Clock::rep> first_request{0};

void request_stop(int signal) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (!requested.exchange(true)) {
    first_request = now;
  } else if (Clock::duration(now - first_request) > kSameRequest) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() { return requested; }

}  // namespace capstan::models
