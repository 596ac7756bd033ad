// LastWords, each case in a child process: what is said at a SIGTERM, and how the process ends.
#include "distributed/comm/last_words.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>

#include "tests/testing/files.h"

namespace {

using capstan::distributed::LastWords;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using namespace std::chrono_literals;

// The wait status of a child that runs `body` and then exits with what it returns.
int status_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_CASE("at a SIGTERM they are said, and the process ends by it") {
  const TemporaryFolder folder;
  const int status = status_of([&] {
    const LastWords words([&] { std::ofstream(folder.file("said")) << "words"; });
    std::raise(SIGTERM);
    std::this_thread::sleep_for(30s);
    return 0;
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(read_file(folder.file("said")) == "words");
}

TEST_CASE("a process that ends by itself in time does") {
  const int status = status_of([] {
    const LastWords words([] {});
    std::raise(SIGTERM);
    std::this_thread::sleep_for(LastWords::kTime / 4);
    return 7;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a program that handles the signal itself has them said, and goes on") {
  const int status = status_of([] {
    std::atomic<int> said{0};
    {
      const LastWords words([&] { ++said; });
      std::signal(SIGTERM, [](int) { LastWords::speak(); });
      for (int i = 1; i <= 2; ++i) {
        std::raise(SIGTERM);
        while (said < i) std::this_thread::sleep_for(1ms);
      }
      std::this_thread::sleep_for(LastWords::kTime + 100ms);
    }
    LastWords::speak();  // there are none any more
    return said == 2 ? 0 : 1;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
