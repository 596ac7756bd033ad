// The caching allocator: alignment, reuse, exact counts, devices apart, many threads.
#include "core/allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/random.h"

using namespace capstan;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

// Each test case counts on a host device of its own.
Allocator& host(int index) { return allocator(Device::cpu(index)); }

/// A block filled with one byte, so that another block over it would be noticed.
struct Block {
  unsigned char* data;
  int64_t bytes;
  unsigned char mark;
};

Block take(Allocator& source, int64_t bytes, unsigned char mark) {
  auto* data = static_cast<unsigned char*>(source.allocate(bytes));
  std::memset(data, mark, bytes);
  return {data, bytes, mark};
}

bool intact(const Block& block) {
  for (int64_t i = 0; i < block.bytes; ++i) {
    if (block.data[i] != block.mark) return false;
  }
  return true;
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
// A request that is too large is a null pointer for the allocator to report, not an abort.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

TEST_CASE("blocks are aligned, as large as asked for, and waste at most 63 bytes or an eighth") {
  Allocator& source = host(10);
  for (int64_t bytes = 1; bytes < 40'000'000; bytes += 1 + bytes / 7) {
    const Block block = take(source, bytes, 0xAB);
    CHECK(reinterpret_cast<uintptr_t>(block.data) % Allocator::kAlignment == 0);
    const int64_t held = source.stats().current;
    CHECK(held >= bytes);
    CHECK(held <= std::max(bytes + 63, bytes + bytes / 8));
    source.deallocate(block.data, bytes);
    CHECK(source.stats().current == 0);
  }
}

TEST_CASE("a freed block serves the next request of its class, without the system") {
  Allocator& source = host(11);
  for (int64_t bytes : {1, 1000, 100'000, 5'000'000}) {
    void* const first = source.allocate(bytes);
    source.deallocate(first, bytes);
    const MemoryStats before = source.stats();
    void* const second = source.allocate(bytes);
    const MemoryStats after = source.stats();
    CHECK(after.allocations == before.allocations + 1);
    if (kCaching) {
      CHECK(second == first);
      CHECK(after.system_calls == before.system_calls);
      CHECK(after.reserved == before.reserved);
    } else {
      CHECK(after.system_calls == before.system_calls + 1);
    }
    source.deallocate(second, bytes);
  }
}

TEST_CASE("counts are exact") {
  Allocator& source = host(12);
  void* const a = source.allocate(64);
  void* const b = source.allocate(100);  // held as 128
  MemoryStats stats = source.stats();
  CHECK(stats.current == 192);
  CHECK(stats.peak == 192);
  CHECK(stats.reserved == 192);
  CHECK(stats.allocations == 2);
  CHECK(stats.system_calls == 2);

  source.deallocate(a, 64);
  stats = source.stats();
  CHECK(stats.current == 128);
  CHECK(stats.peak == 192);
  CHECK(stats.reserved == (kCaching ? 192 : 128));

  source.reset_peak();
  CHECK(source.stats().peak == 128);
  source.release_cache();
  CHECK(source.stats().reserved == 128);
  source.deallocate(b, 100);
  source.release_cache();
  stats = memory_stats(Device::cpu(12));
  CHECK(stats.current == 0);
  CHECK(stats.reserved == 0);
  CHECK(stats.peak == 128);
}

TEST_CASE("nothing is held for zero bytes") {
  Allocator& source = host(13);
  CHECK(source.allocate(0) == nullptr);
  source.deallocate(nullptr, 0);
  CHECK(source.stats().allocations == 0);
}

TEST_CASE("host devices count apart") {
  void* const block = host(14).allocate(64);
  CHECK(host(14).stats().current == 64);
  CHECK(host(15).stats().current == 0);
  host(14).deallocate(block, 64);
  CHECK(&host(14) == &host(14));
}

TEST_CASE("meta holds nothing") {
  Allocator& meta = allocator(Device::meta());
  CHECK(meta.allocate(int64_t{1} << 60) == nullptr);
  meta.deallocate(nullptr, int64_t{1} << 60);
  meta.reset_peak();
  meta.release_cache();
  CHECK(meta.stats().current == 0);
  CHECK(meta.stats().allocations == 0);
}

TEST_CASE("when the bytes cannot be had, the error gives the figures, and life goes on") {
  Allocator& source = host(16);
  void* const held = source.allocate(64);
  for (int64_t bytes : {int64_t{1} << 50, int64_t{1} << 62, int64_t{-1}}) {
    CHECK_THROWS_WITH_AS(source.allocate(bytes),
                         ("[allocate] out of memory on cpu:16: " + std::to_string(bytes) +
                          " bytes requested, 64 held by tensors, 64 reserved")
                             .c_str(),
                         Error);
  }
  CHECK(source.stats().current == 64);
  CHECK(source.stats().allocations == 1);
  source.deallocate(held, 64);
}

TEST_CASE("no two live blocks overlap") {
  Allocator& source = host(17);
  Generator generator(3);
  std::vector<Block> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() < 50 || generator.below(2)) {
      live.push_back(take(source, 1 + generator.below(1 << generator.below(18)), step));
    } else {
      std::swap(live[generator.below(live.size())], live.back());
      CHECK(intact(live.back()));
      source.deallocate(live.back().data, live.back().bytes);
      live.pop_back();
    }
  }
  for (const Block& block : live) {
    CHECK(intact(block));
    source.deallocate(block.data, block.bytes);
  }
  CHECK(source.stats().current == 0);
}

TEST_CASE("threads may free each other's blocks") {
  Allocator& source = host(18);
  constexpr int kThreads = 4, kSteps = 2000;
  std::mutex mutex;
  std::vector<Block> shared;  // everybody adds to it and takes from it
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Generator generator(thread);
      for (int step = 0; step < kSteps; ++step) {
        Block block =
            take(source, 1 + generator.below(1 << generator.below(13)), thread * 50 + step);
        {
          const std::lock_guard lock(mutex);
          shared.push_back(block);
          std::swap(shared[generator.below(shared.size())], shared.back());
          if (shared.size() < 20) continue;
          block = shared.back();
          shared.pop_back();
        }
        damaged += !intact(block);
        source.deallocate(block.data, block.bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(damaged == 0);
  for (const Block& block : shared) source.deallocate(block.data, block.bytes);
  const MemoryStats stats = source.stats();
  CHECK(stats.allocations == kThreads * kSteps);
  CHECK(stats.current == 0);
  source.release_cache();
  CHECK(source.stats().reserved == 0);
}

TEST_CASE("the peak is exact on several threads") {
  Allocator& source = host(19);
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      std::vector<void*> blocks;
      for (int i = 0; i < 100; ++i) blocks.push_back(source.allocate(64));
      ++ready;
      while (ready < kThreads) std::this_thread::yield();  // all hold their hundred now
      for (void* block : blocks) source.deallocate(block, 64);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(source.stats().peak == kThreads * 100 * 64);
  CHECK(source.stats().current == 0);
}
