// ProcessWatch notices the end of processes of this machine, and nothing of others.
#include "distributed/comm/process_watch.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace {

using namespace capstan::distributed;
using namespace std::chrono_literals;

// A process that waits to be killed, as it describes itself.
std::pair<pid_t, std::string> child() {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t process = fork();
  if (process == 0) {
    const std::string text = ProcessWatch::here();
    if (write(pipe_ends[1], text.data(), text.size()) > 0) pause();
    _exit(0);
  }
  char text[256] = {};
  REQUIRE(read(pipe_ends[0], text, sizeof text - 1) > 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return {process, text};
}

TEST_CASE("a process that ends is noticed, before it is waited for") {
  const auto [first, first_text] = child();
  const auto [second, second_text] = child();
  {
    ProcessWatch watch({ProcessWatch::here(), first_text, second_text, "elsewhere 1", ""});
    std::this_thread::sleep_for(60ms);
    CHECK(!watch.look());
    kill(second, SIGKILL);
    const auto start = Clock::now();
    while (!watch.look() && Clock::now() - start < 10s) std::this_thread::sleep_for(1ms);
    for (int place : {0, 1, 3, 4}) CHECK(!watch.has_ended(place));
    CHECK(watch.has_ended(2));
    CHECK(watch.look());
  }
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  waitpid(second, nullptr, 0);
}

}  // namespace
