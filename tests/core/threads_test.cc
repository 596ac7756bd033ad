// parallel_for: every block once, exceptions, nesting, several callers, the number of threads.
#include "core/threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"

using namespace capstan;

namespace {

/// Sets the number of threads for one scope.
struct WithThreads {
  explicit WithThreads(int count) { set_thread_count(count); }
  ~WithThreads() { set_thread_count(before); }
  const int before = thread_count();
};

/// Runs this program again with CAPSTAN_THREADS=`value`, and one of the test cases below that are
/// skipped otherwise. True if it passes.
bool passes_with(const std::string& value, const std::string& test_case) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  return std::system(("CAPSTAN_THREADS='" + value + "' '" + program + "' --no-skip --test-case='" +
                      test_case + "' > /dev/null")
                         .c_str()) == 0;
}

}  // namespace

TEST_CASE("every index is visited once, in blocks of the given size") {
  for (int threads : {1, 2, 3, 8}) {
    const WithThreads scope(threads);
    for (int64_t count : {0, 1, 7, 8, 9, 1000, 1003}) {
      for (int64_t block : {1, 8, 64, 5000}) {
        std::vector<std::atomic<int>> visits(count);
        std::atomic<bool> aligned{true};
        parallel_for(count, block, [&](int64_t begin, int64_t end) {
          if (begin % block != 0 || end != std::min(begin + block, count)) aligned = false;
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        });
        CHECK(aligned);
        bool once = true;
        for (const auto& visit : visits) once &= visit == 1;
        CHECK(once);
      }
    }
  }
}

TEST_CASE("several threads take part, and one alone is the caller") {
  // Every block waits until `expected` threads have come, or for ten seconds.
  const auto participants = [](size_t expected) {
    std::mutex mutex;
    std::condition_variable arrived;
    std::set<std::thread::id> ids;
    parallel_for(16, 1, [&](int64_t, int64_t) {
      std::unique_lock lock(mutex);
      ids.insert(std::this_thread::get_id());
      arrived.notify_all();
      arrived.wait_for(lock, std::chrono::seconds(10), [&] { return ids.size() >= expected; });
    });
    return ids;
  };
  {
    const WithThreads scope(3);
    CHECK(participants(3).size() == 3);
  }
  {
    const WithThreads scope(2);  // a worker is left over
    CHECK(participants(2).size() == 2);
  }
  const WithThreads scope(1);
  CHECK(participants(1) == std::set{std::this_thread::get_id()});
}

TEST_CASE("the first exception comes out of parallel_for, and the pool stays usable") {
  for (int threads : {1, 4}) {
    const WithThreads scope(threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::atomic<int> started{0};
      CHECK_THROWS_WITH_AS(parallel_for(1000, 1,
                                        [&](int64_t begin, int64_t) {
                                          ++started;
                                          if (begin >= 10) throw ShapeError("block failed");
                                        }),
                           "block failed", ShapeError);
      CHECK(started < 1000);  // the others were not taken any more
      std::atomic<int64_t> sum{0};
      parallel_for(100, 1, [&](int64_t begin, int64_t) { sum += begin; });
      CHECK(sum == 4950);
    }
  }
}

TEST_CASE("nested calls run on the calling thread") {
  const WithThreads scope(4);
  std::atomic<int> visits{0}, elsewhere{0};
  parallel_for(16, 1, [&](int64_t, int64_t) {
    const auto caller = std::this_thread::get_id();
    parallel_for(16, 1, [&](int64_t, int64_t) {
      ++visits;
      elsewhere += std::this_thread::get_id() != caller;
    });
  });
  CHECK(visits == 256);
  CHECK(elsewhere == 0);
}

TEST_CASE("an exception in a nested call passes through both") {
  const WithThreads scope(2);
  CHECK_THROWS_AS(parallel_for(8, 1,
                               [](int64_t, int64_t) {
                                 parallel_for(8, 1,
                                              [](int64_t, int64_t) { throw ValueError("no"); });
                               }),
                  ValueError);
}

TEST_CASE("callers on several threads all make progress") {
  for (int threads : {1, 2, 4}) {
    const WithThreads scope(threads);
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        for (int64_t repeat = 0; repeat < 300; ++repeat) {
          const int64_t count = 1 + (repeat + caller) % 40;
          std::vector<int64_t> out(count);
          parallel_for(count, 1, [&](int64_t begin, int64_t) { out[begin] = begin + caller; });
          for (int64_t i = 0; i < count; ++i) wrong += out[i] != i + caller;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a caller whose workers are busy elsewhere does the work itself") {
  const WithThreads scope(2);
  std::atomic<bool> release{false};
  std::atomic<int> held{0};
  std::thread other([&] {  // holds both its own thread and the only worker
    parallel_for(2, 1, [&](int64_t, int64_t) {
      ++held;
      while (!release) std::this_thread::yield();
    });
  });
  while (held < 2) std::this_thread::yield();
  int visits = 0;
  parallel_for(10, 1, [&](int64_t, int64_t) { ++visits; });  // would hang if it waited for a worker
  CHECK(visits == 10);
  release = true;
  other.join();
}

TEST_CASE("the number of threads must be sensible") {
  const int before = thread_count();
  CHECK(before >= 1);
  CHECK_THROWS_WITH_AS(set_thread_count(0),
                       "[threads] the number of threads must be from 1 to 1024, got 0", ValueError);
  CHECK_THROWS_AS(set_thread_count(-1), ValueError);
  CHECK_THROWS_AS(set_thread_count(1025), ValueError);
  CHECK(thread_count() == before);
}

TEST_CASE("CAPSTAN_THREADS sets the number of threads") {
  CHECK(passes_with("3", "child: three threads"));
  CHECK_FALSE(passes_with("2", "child: three threads"));
  for (const char* wrong : {"0", "-2", "two", "2.5", "", "99999999999999"}) {
    CAPTURE(wrong);
    CHECK(passes_with(wrong, "child: refused"));
  }
}

TEST_CASE("child: three threads" * doctest::skip()) { CHECK(thread_count() == 3); }

TEST_CASE("child: refused" * doctest::skip()) {
  try {
    thread_count();
    FAIL("accepted");
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()) ==
          "[threads] CAPSTAN_THREADS must be a whole number from 1 to 1024, got '" +
              std::string(std::getenv("CAPSTAN_THREADS")) + "'");
  }
}
