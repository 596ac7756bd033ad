// Defines Storage: the bytes that a tensor and its views share.
#pragma once

#include <atomic>
#include <functional>

#include "core/allocator.h"
#include "core/ref.h"

namespace capstan {

/// Owns a block of bytes on a device. On meta it has a size but no bytes.
class Storage : public RefCounted {
 public:
  /// `bytes` uninitialised bytes.
  Storage(int64_t bytes, Device device);
  /// Adopts memory that somebody else allocated; `free`, if any, runs when the storage goes.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> free);
  ~Storage() override;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Gives the bytes back while tensors keep their layouts; refill() allocates them again,
  /// uninitialised. Sharded training frees and refills parameters around their use. Reading a
  /// released tensor throws; adopted memory cannot be released (ValueError).
  void release();
  void refill();

  /// Counts writes. The tape compares it to tell whether a saved value was changed in place.
  int64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() {
    // Not one atomic step, which would cost more than a small kernel: if two writers meet, the
    // version rises by one instead of two, and still differs from a saved one.
    version_.store(version() + 1, std::memory_order_relaxed);
  }

  /// Counts the writes that the tape recorded. A tensor that has not seen the last one must find
  /// its place on the tape anew (Tensor::node()).
  int32_t recorded_writes() const { return recorded_writes_; }
  void add_recorded_write() { ++recorded_writes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
  Device device_;
  std::atomic<int64_t> version_{0};
  int32_t recorded_writes_ = 0;
  bool adopted_ = false;
  std::function<void()> free_;  // of adopted memory
};

}  // namespace capstan
