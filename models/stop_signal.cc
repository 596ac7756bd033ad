#include "models/stop_signal.h"

#include <atomic>
#include <csignal>

namespace capstan::models {
namespace {

std::atomic<bool> requested{false};  // lock-free, so a signal handler may set it

void request_stop(int) { requested = true; }

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() { return requested; }

}  // namespace capstan::models
