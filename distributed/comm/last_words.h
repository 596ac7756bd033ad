// Defines LastWords, what a rank still does when it is told to end. Launchers send SIGTERM to all
// ranks that are left when one has ended, and a second later kill them. Batch systems send it to
// whoever's time is up, and may wait longer.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace capstan::distributed {

/// While it lives, a SIGTERM makes a thread of its own call `say`; then the process, if it has not
/// ended by itself within kTime, ends as the signal would have ended it. One at a time.
class LastWords {
 public:
  /// For the ranks to find out, agree and say what has happened to the one that ended first.
  static constexpr std::chrono::milliseconds kTime{700};

  explicit LastWords(std::function<void()> say);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  /// For a program that handles SIGTERM itself, in its handler: `say` is called, and the program
  /// goes on. Does nothing where no LastWords live. Async-signal-safe.
  static void speak();

 private:
  std::thread thread_;
};

}  // namespace capstan::distributed
