// Defines LastWords, what a rank still does when it is told to end. Launchers send SIGTERM to all
// ranks that are left when one has ended: under mpirun this, and not a closed connection, is how
// ranks come to know of it, and a second later they are killed.
#pragma once

#include <functional>
#include <thread>

namespace capstan::distributed {

/// While it lives, a SIGTERM makes a thread of its own call `say`, and then ends the process, as
/// the signal would have. A program that handles SIGTERM itself from then on does without. One at a
/// time.
class LastWords {
 public:
  explicit LastWords(std::function<void()> say);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  std::thread thread_;
};

}  // namespace capstan::distributed
