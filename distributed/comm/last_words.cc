// Implements LastWords. A signal handler may do next to nothing, so it only wakes up the thread.
#include "distributed/comm/last_words.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace capstan::distributed {
namespace {

// sem_post() is one of the few calls that a handler may make. Never destroyed: a signal may be on
// its way.
sem_t told;
std::atomic<bool> done{false};

void on_signal(int) {
  const int error = errno;
  sem_post(&told);
  errno = error;
}

bool is_ours() {
  struct sigaction present = {};
  sigaction(SIGTERM, nullptr, &present);
  return present.sa_handler == on_signal;
}

}  // namespace

LastWords::LastWords(std::function<void()> say) {
  done = false;
  sem_init(&told, 0, 0);
  thread_ = std::thread([say = std::move(say)] {
    while (sem_wait(&told) != 0) {
    }
    if (done) return;
    say();
    std::signal(SIGTERM, SIG_DFL);
    ::kill(::getpid(), SIGTERM);
  });
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

LastWords::~LastWords() {
  if (is_ours()) std::signal(SIGTERM, SIG_DFL);
  done = true;
  sem_post(&told);
  thread_.join();
}

}  // namespace capstan::distributed
