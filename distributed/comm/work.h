// Defines Work, the handle of a collective that runs while its caller computes.
#pragma once

#include <chrono>
#include <memory>

namespace capstan::distributed {

using Clock = std::chrono::steady_clock;

/// A started call of a Communicator. Copies are handles of the same call; any thread may hold one.
/// A handle may be dropped: the call still runs, and the communicator keeps its tensors alive.
class Work {
 public:
  /// A call that is already done.
  Work();

  /// Returns once the call is done. Throws SharedError if it failed, as often as it is called.
  void wait() const;
  /// True once the call is done or has failed; never blocks, never throws.
  bool done() const;

  /// When the call began to run and ended; valid once done(). From begin to end the
  /// call was hidden behind its caller's computing, except for the time spent in wait().
  Clock::time_point started() const;
  Clock::time_point finished() const;

  /// What handle and progress thread share; defined in progress.h.
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace capstan::distributed
