// Defines Watchdog, a limit for what cannot be given one: calls of the MPI library that wait for
// other ranks and cannot be interrupted (its start, its end, a split).
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace capstan::distributed {

/// If it lives longer than `limit`, the process says "program: `text` within N s: `advice`" on
/// standard error and exits with status 1. Lower ranks go first: with the first that ends, the
/// launcher ends all.
class Watchdog {
 public:
  Watchdog(std::string text, std::chrono::milliseconds limit, std::string advice);

 private:
  std::jthread thread_;
};

}  // namespace capstan::distributed
