// Tests how signals stop a program, each case in a child process.
#include "models/stop_signal.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

using namespace capstan::models;

namespace {

// The wait status of a child that runs `body` and then exits with what it returns.
int status_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    catch_stop_signals();
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("without a signal nobody is asked to stop") {
  CHECK(status_of([] { return stop_requested() ? 1 : 0; }) == 0);
}

TEST_CASE("signals in quick succession are one request") {
  for (int signal : {SIGTERM, SIGINT}) {
    const int status = status_of([&] {
      for (int i = 0; i < 3; ++i) std::raise(signal);
      return stop_requested() ? 0 : 1;
    });
    CHECK(status == 0);
  }
}

TEST_CASE("a later signal ends the program") {
  const int status = status_of([] {
    std::raise(SIGTERM);
    std::this_thread::sleep_for(kSameRequest + std::chrono::milliseconds(50));
    std::raise(SIGTERM);
    return 0;
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
