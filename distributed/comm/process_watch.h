// Defines ProcessWatch, which notices that a process of this machine has ended. MPI does not tell
// one rank that another is dead: its messages just do not come. The launcher knows, but it only
// ends the rest.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "distributed/comm/work.h"

namespace capstan::distributed {

class ProcessWatch {
 public:
  /// What others must know to watch this process: its machine, its process namespace, its number.
  static std::string here();

  /// Watches those of `processes`, each described by its own here(), that are on this machine; not
  /// this one itself. Nothing is watched where the kernel cannot (Linux before 5.3).
  explicit ProcessWatch(const std::vector<std::string>& processes);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// True if some have ended; looks by itself every kBetweenLooks. For any thread.
  bool look();
  /// Whether the process with this place in the list was among them.
  bool has_ended(int place) const { return ended_[place]; }

 private:
  static constexpr std::chrono::milliseconds kBetweenLooks{50};

  std::vector<int> files_;  // by place; -1: not watched
  std::vector<std::atomic<bool>> ended_;
  std::atomic<bool> any_{false};
  std::atomic<Clock::rep> next_look_{0};
};

}  // namespace capstan::distributed
