// The caching allocator of host memory. Read in this order: size classes, free lists, the system's
// blocks, HostAllocator.
//
// A block goes from the system to a tensor, then back and forth between tensors and the free list
// of its size class, and back to the system when memory runs out or release_cache() is called.
// Every list has its own lock, held for three instructions, so a small allocation and its release
// cost about 11 ns together, and any thread may free what another one allocated.
//
// With AddressSanitizer nothing is cached, so that every use of freed bytes is found.
#include "core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/cuda/device.h"
#include "core/raise.h"

namespace capstan {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

// Size classes: eight steps per power of two, and never finer than kAlignment. So a block is at
// most 63 bytes or an eighth larger than asked for.

constexpr int64_t kLargest = int64_t{1} << 56;
constexpr int kSteps = 8;

constexpr int size_class(int64_t bytes) {
  const uint64_t lines = static_cast<uint64_t>(bytes - 1) / Allocator::kAlignment;  // less one
  const int shift = std::max(0, static_cast<int>(std::bit_width(lines)) - 4);
  return shift * kSteps + static_cast<int>(lines >> shift);
}

constexpr int64_t class_bytes(int size_class) {
  const int shift = std::max(0, size_class / kSteps - 1);
  return (int64_t{size_class} - shift * kSteps + 1) * Allocator::kAlignment << shift;
}

constexpr int kClasses = size_class(kLargest) + 1;

/// A lock of one byte. A waiter soon yields its core, which the holder may need.
class SpinLock {
 public:
  void lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      tries < 100 ? __builtin_ia32_pause() : std::this_thread::yield();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

/// Free blocks of one size, chained through their first bytes; the last one freed is used first,
/// because it is likely to be in the processor's cache still.
class FreeList {
 public:
  void push(void* block) {
    const std::lock_guard lock(lock_);
    head_ = new (block) Link{head_};
  }
  void* pop() {
    const std::lock_guard lock(lock_);
    return head_ ? std::exchange(head_, head_->next) : nullptr;
  }

 private:
  struct Link {
    Link* next;
  };
  SpinLock lock_;
  Link* head_ = nullptr;
};

// The system's blocks. Large ones are mapped where huge pages fit: a fresh 64 MB block is then
// touched for the first time in 6 ms instead of 70.

constexpr int64_t kHugePage = int64_t{1} << 21;

bool is_large(int64_t bytes) { return kCaching && bytes >= kHugePage; }

/// `bytes` mapped at a multiple of kHugePage, or null.
void* map_large(int64_t bytes) {
  void* const area =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  // Of the extra page, give back what lies before and behind the aligned block.
  const int64_t before = -reinterpret_cast<uintptr_t>(area) % kHugePage;
  char* const block = static_cast<char*>(area) + before;
  if (before > 0) munmap(area, before);
  munmap(block + bytes, kHugePage - before);
  madvise(block, bytes, MADV_HUGEPAGE);  // a wish: where it is refused, small pages do
  return block;
}

void* system_allocate(int64_t bytes) {
  return is_large(bytes) ? map_large(bytes) : std::aligned_alloc(Allocator::kAlignment, bytes);
}

void system_free(void* block, int64_t bytes) {
  if (is_large(bytes)) {
    munmap(block, bytes);
  } else {
    std::free(block);
  }
}

class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(int index) : index_(index) {}

  void* allocate(int64_t bytes) override {
    if (bytes == 0) return nullptr;
    if (bytes < 0 || bytes > kLargest) out_of_memory(bytes);
    const int c = size_class(bytes);
    void* block = cached_[c].pop();
    if (!block) block = ask_system(bytes, class_bytes(c));
    count(class_bytes(c));
    return block;
  }

  void deallocate(void* block, int64_t bytes) override {
    if (!block) return;
    const int c = size_class(bytes);
    current_.fetch_sub(class_bytes(c), std::memory_order_relaxed);
    if (kCaching) {
      cached_[c].push(block);
    } else {
      return_to_system(block, class_bytes(c));
    }
  }

  MemoryStats stats() const override {
    return {.current = current_.load(std::memory_order_relaxed),
            .peak = peak_.load(std::memory_order_relaxed),
            .reserved = reserved_.load(std::memory_order_relaxed),
            .allocations = allocations_.load(std::memory_order_relaxed),
            .system_calls = system_calls_.load(std::memory_order_relaxed)};
  }

  void reset_peak() override { peak_.store(current_.load()); }

  void release_cache() override {
    for (int c = 0; c < kClasses; ++c) {
      while (void* block = cached_[c].pop()) return_to_system(block, class_bytes(c));
    }
  }

 private:
  /// The additions to `current_` are in one order, so that the largest sum is the exact peak.
  void count(int64_t bytes) {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const int64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  /// A block from the system; `requested` is for the error.
  void* ask_system(int64_t requested, int64_t bytes) {
    void* block = system_allocate(bytes);
    if (!block) {
      release_cache();
      block = system_allocate(bytes);
    }
    if (!block) out_of_memory(requested);
    reserved_.fetch_add(bytes, std::memory_order_relaxed);
    system_calls_.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  void return_to_system(void* block, int64_t bytes) {
    system_free(block, bytes);
    reserved_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  [[noreturn]] void out_of_memory(int64_t requested) const {
    const MemoryStats now = stats();
    raise<Error>(
        "[allocate] out of memory on cpu:{}: {} bytes requested, {} held by tensors, {} reserved",
        index_, requested, now.current, now.reserved);
  }

  const int index_;
  std::array<FreeList, kClasses> cached_;
  // Together on one cache line, apart from the lists.
  alignas(64) std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> system_calls_{0};
};

/// Memory that is none: meta tensors have sizes only.
class MetaAllocator final : public Allocator {
 public:
  void* allocate(int64_t) override { return nullptr; }
  void deallocate(void*, int64_t) override {}
  MemoryStats stats() const override { return {}; }
  void reset_peak() override {}
  void release_cache() override {}
};

constexpr int kMaxHostDevices = 64;

/// Allocators are made on first use and never destroyed, so that static tensors may outlive main().
Allocator& host_allocator(int index) {
  static std::atomic<HostAllocator*> allocators[kMaxHostDevices];
  if (index < 0 || index >= kMaxHostDevices) {
    raise<DeviceError>("[device] cpu:{} does not exist: there are cpu:0 to cpu:{}", index,
                       kMaxHostDevices - 1);
  }
  HostAllocator* found = allocators[index].load(std::memory_order_acquire);
  if (found) return *found;
  auto made = std::make_unique<HostAllocator>(index);
  if (allocators[index].compare_exchange_strong(found, made.get())) found = made.release();
  return *found;
}

}  // namespace

Allocator& allocator(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return host_allocator(device.index);
    case Device::Kind::meta: {
      static MetaAllocator none;
      return none;
    }
    case Device::Kind::cuda:
      break;
  }
  raise<DeviceError>("[device] {} cannot be used: {}", device, cuda_description());
}

MemoryStats memory_stats(Device device) { return allocator(device).stats(); }

}  // namespace capstan
