// Implements LastWords. A signal handler may do next to nothing, so it only wakes up the thread.
#include "distributed/comm/last_words.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

namespace capstan::distributed {
namespace {

// sem_post() is one of the few calls that a handler may make. Never destroyed: a signal may be on
// its way.
sem_t told;
std::atomic<bool> listening{false}, ends{false}, done{false};

void on_signal(int) {
  ends = true;
  LastWords::speak();
}

bool is_ours() {
  struct sigaction present = {};
  sigaction(SIGTERM, nullptr, &present);
  return present.sa_handler == on_signal;
}

void wait_until_told() {
  while (sem_wait(&told) != 0) {
  }
}

// The same, at most kTime; false then.
bool is_told_in_time() {
  timespec end = {};
  clock_gettime(CLOCK_REALTIME, &end);
  constexpr long kSecond = 1'000'000'000;
  end.tv_nsec += std::chrono::nanoseconds(LastWords::kTime).count();
  end.tv_sec += end.tv_nsec / kSecond;
  end.tv_nsec %= kSecond;
  for (;;) {
    if (sem_timedwait(&told, &end) == 0) return true;
    if (errno == ETIMEDOUT) return false;
  }
}

}  // namespace

void LastWords::speak() {
  if (!listening) return;
  const int error = errno;
  sem_post(&told);
  errno = error;
}

LastWords::LastWords(std::function<void()> say) {
  ends = done = false;
  sem_init(&told, 0, 0);
  listening = true;
  thread_ = std::thread([say = std::move(say)] {
    for (;;) {
      wait_until_told();
      if (done) return;
      say();
      if (!ends) continue;
      while (is_told_in_time()) {
        if (done) return;
      }
      std::signal(SIGTERM, SIG_DFL);
      ::kill(::getpid(), SIGTERM);
    }
  });
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

LastWords::~LastWords() {
  if (is_ours()) std::signal(SIGTERM, SIG_DFL);
  listening = false;
  done = true;
  sem_post(&told);
  thread_.join();
}

}  // namespace capstan::distributed
