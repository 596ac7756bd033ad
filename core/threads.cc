// The thread pool beneath parallel_for.
//
// A call is a Job on the caller's stack with a counter of the blocks not yet taken. The caller
// lists it, workers join any listed job that has blocks left, and everybody, the caller included,
// takes blocks until none is left. So callers on several threads (ranks) share the workers, and
// none ever waits for a worker to come: at worst it runs all blocks itself.
#include "core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/raise.h"

namespace capstan {
namespace {

constexpr int kMaxThreads = 1024;

int default_thread_count() {
  if (const char* text = std::getenv("CAPSTAN_THREADS")) {
    int count = 0;
    const char* const end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, count);
    if (parsed.ec != std::errc() || parsed.ptr != end || count < 1 || count > kMaxThreads) {
      raise<ValueError>("[threads] CAPSTAN_THREADS must be a whole number from 1 to {}, got '{}'",
                        kMaxThreads, text);
    }
    return count;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1u, std::thread::hardware_concurrency());  // more cores than cpu_set_t has bits
}

std::atomic<int>& thread_count_setting() {
  static std::atomic<int> count{default_thread_count()};
  return count;
}

thread_local bool inside_block = false;

/// One call of run_blocks().
struct Job {
  const int64_t blocks;
  const std::function<void(int64_t)>& block;
  std::atomic<int64_t> next{0};
  std::atomic<int> helpers{0};  // workers that have joined and not left
  std::exception_ptr error{};   // guarded by the pool's mutex

  bool has_work() const { return next.load(std::memory_order_relaxed) < blocks; }

  /// Takes blocks until none is left. After an exception, nobody takes another one.
  void work(std::mutex& mutex) {
    inside_block = true;
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) block(i);
    } catch (...) {
      next.store(blocks, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
    inside_block = false;
  }
};

class Pool {
 public:
  void run(Job& job, int helpers) {
    {
      const std::lock_guard lock(mutex_);
      hire(helpers);
      jobs_.push_back(&job);
      listed_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work(mutex_);
    {
      const std::lock_guard lock(mutex_);
      std::erase(jobs_, &job);
    }
    // Nobody can join any more; those inside are at their last block.
    if (spin_until([&] { return job.helpers.load(std::memory_order_acquire) == 0; })) return;
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return job.helpers.load(std::memory_order_acquire) == 0; });
  }

 private:
  /// Starts workers until there are `count`. Where the system has no more threads, fewer do.
  void hire(int count) {
    try {
      for (; workers_ < count; ++workers_) {
        std::thread([this, index = workers_] { serve(index); }).detach();
      }
    } catch (const std::system_error&) {  // no more threads: those there are do the work
    }
  }

  /// Worker number `index` takes part while thread_count() allows it.
  void serve(int index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = nullptr;
      const auto find_job = [&] {
        if (index >= thread_count() - 1) return false;
        const auto found =
            std::find_if(jobs_.begin(), jobs_.end(), [](Job* j) { return j->has_work(); });
        if (found != jobs_.end()) job = *found;
        return job != nullptr;
      };
      if (!find_job()) {
        // A kernel is often followed by the next within microseconds, sleeping costs tens of them.
        const int64_t seen = listed_.load(std::memory_order_acquire);
        lock.unlock();
        spin_until([&] { return listed_.load(std::memory_order_acquire) != seen; });
        lock.lock();
        wake_.wait(lock, find_job);
      }
      job->helpers.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      job->work(mutex_);
      lock.lock();
      job->helpers.fetch_sub(1, std::memory_order_release);
      left_.notify_all();
    }
  }

  template <class Condition>
  static bool spin_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    do {
      for (int i = 0; i < 32; ++i) {
        if (condition()) return true;
        __builtin_ia32_pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    return condition();
  }

  std::mutex mutex_;
  std::condition_variable wake_;  // a job was listed
  std::condition_variable left_;  // a worker left a job
  std::vector<Job*> jobs_;
  std::atomic<int64_t> listed_{0};  // jobs ever listed
  int workers_ = 0;
};

Pool& pool() {
  // Never destroyed: workers sleep in it until the process ends.
  static Pool* const pool = new Pool;
  return *pool;
}

}  // namespace

int thread_count() { return thread_count_setting().load(std::memory_order_relaxed); }

void set_thread_count(int count) {
  if (count < 1 || count > kMaxThreads) {
    raise<ValueError>("[threads] the number of threads must be from 1 to {}, got {}", kMaxThreads,
                      count);
  }
  thread_count_setting().store(count, std::memory_order_relaxed);
}

namespace detail {

void run_blocks(int64_t blocks, const std::function<void(int64_t)>& block) {
  const int threads = static_cast<int>(std::min<int64_t>(blocks, thread_count()));
  if (threads <= 1 || inside_block) {
    for (int64_t i = 0; i < blocks; ++i) block(i);
    return;
  }
  Job job{.blocks = blocks, .block = block};
  pool().run(job, threads - 1);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail
}  // namespace capstan
