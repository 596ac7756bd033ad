// Defines Board, where the ranks of one host meet: memory in which each of them shows its calls,
// counts how often it has arrived, and lays out the numbers of tensors that lie elsewhere.
//
// Each rank writes its own section only, so nothing is locked; a number that says how much is there
// is stored last and read first (release and acquire).
#pragma once

#include <atomic>
#include <memory>

#include "distributed/comm/call.h"
#include "distributed/comm/shared_memory.h"

namespace capstan::distributed {

class Board {
 public:
  /// How many calls a rank can be ahead of the one that looks at them.
  static constexpr int64_t kCalls = 64;
  static int64_t bytes() { return sizeof(Section); }

  /// The most bytes that a rank can lay out at once: of several ranks they fit a second-level
  /// cache.
  static constexpr int64_t kStageBytes = 64 << 10;

  /// Over fresh blocks of bytes() bytes.
  Board(std::shared_ptr<SharedMemory> memory, int rank) : memory_(std::move(memory)), rank_(rank) {}

  /// Shows this rank's call, the next after the one shown last. There must be room for it.
  void show(const Call& call);
  /// True if there is room for the call with this number, as far as `reader` has read.
  bool has_room(int64_t sequence, int reader) const;
  /// True once another rank shows its call with this number.
  bool shows(int rank, int64_t sequence) const;
  /// That call. Each rank is read by one other, call by call.
  Call read(int rank, int64_t sequence);

  /// Where a rank lays out its bytes for the use-th time (all ranks count alike). The one before
  /// may be in use still, the one before that is not, if ranks meet between laying out and reading.
  std::byte* stage(int rank, int64_t use) const { return section(rank).stages[use % 2]; }

  /// Says that this rank has come to its next meeting point.
  void arrive();
  /// True once another rank has come to this rank's last meeting point.
  bool has_arrived(int rank) const;

 private:
  struct Section {
    alignas(64) std::atomic<int64_t> shown;    // number of the last call that is there
    alignas(64) std::atomic<int64_t> read;     // ... that its owner has read from another rank
    alignas(64) std::atomic<int64_t> arrived;  // meeting points
    alignas(64) Call calls[kCalls];
    alignas(64) std::byte stages[2][kStageBytes];
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free);

  Section& section(int rank) const { return *reinterpret_cast<Section*>(memory_->block(rank)); }

  std::shared_ptr<SharedMemory> memory_;
  int rank_;
};

}  // namespace capstan::distributed
