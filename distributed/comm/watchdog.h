// Defines Watchdog, a limit for what cannot be given one: calls of the MPI library that wait for
// other ranks and cannot be interrupted (its start, its end, a communicator of its own).
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace capstan::distributed {

/// If it lives longer than `limit`, or kShortest if that is longer, the process says "program:
/// `text` within N s: `advice`" on standard error and exits with status 1. Lower ranks go first:
/// with the first that ends, the launcher ends all.
class Watchdog {
 public:
  /// A busy machine may take some seconds to start or end a job, whatever its calls may take.
  static constexpr std::chrono::milliseconds kShortest{10'000};

  Watchdog(std::string text, std::chrono::milliseconds limit, std::string advice);

 private:
  std::jthread thread_;
};

}  // namespace capstan::distributed
