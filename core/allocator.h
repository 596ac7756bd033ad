// Defines Allocator, the source of every tensor's bytes, and the caching one used for host memory.
//
// Freed blocks are kept for the next request of their size class, so that a training step reuses
// the pages of the step before: an allocating add of 1e7 floats spends four fifths of its time in
// fresh pages otherwise. All counts are public: memory is planned, not guessed.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace capstan {

/// Bytes and calls of one device's allocator since the process began.
struct MemoryStats {
  int64_t current = 0;       // bytes held by tensors now (rounded up to size classes)
  int64_t peak = 0;          // largest `current` since reset_peak()
  int64_t reserved = 0;      // bytes taken from the system: held by tensors or cached
  int64_t allocations = 0;   // requests
  int64_t system_calls = 0;  // requests that had to ask the system
};

/// Hands out blocks aligned to kAlignment bytes. Safe to call from any thread.
class Allocator {
 public:
  static constexpr int64_t kAlignment = 64;  // a cache line; slices of buckets start on it too

  virtual ~Allocator() = default;
  /// A block of at least `bytes` bytes, uninitialised; null for 0 bytes. Throws Error when the
  /// system has no more, with the figures of stats().
  virtual void* allocate(int64_t bytes) = 0;
  /// Takes back a block that was allocated with the same `bytes`.
  virtual void deallocate(void* block, int64_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peak() = 0;
  /// Returns cached blocks to the system.
  virtual void release_cache() = 0;
};

/// The allocator of a device. It lives as long as the process. Throws DeviceError for a device that
/// does not exist (cpu:64 and above) or was not built in.
Allocator& allocator(Device device);

/// Shorthand for allocator(device).stats().
MemoryStats memory_stats(Device device);

}  // namespace capstan
