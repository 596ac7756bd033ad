// Defines SharedMemory, equal blocks of memory, one made by each rank, that all ranks reach.
//
// A block is an anonymous file in memory (memfd_create); a rank opens those of the others through
// /proc, by process and file number. So no name can clash and nothing is left behind, however a
// process ends. Whether ranks of one host can reach each other's memory is not asked but tried
// (containers may keep them apart): a block begins with a random number that only its owner can
// have told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace capstan::distributed {

class Channel;

class SharedMemory {
 public:
  /// What a rank tells the others about its block.
  struct Handle {
    int64_t process = 0;
    int64_t file = -1;  // -1: there is no block
    uint64_t secret = 0;
  };

  /// Makes a block of `bytes` zeros that this rank owns. Where the system gives none, the handle
  /// says so.
  explicit SharedMemory(int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const Handle& handle() const { return handle_; }
  /// Maps the blocks behind the handles of all ranks; false if one of them cannot be reached.
  bool open(std::span<const Handle> handles);

  /// Rank r's block, after open(); it stays as long as this object, whatever its owner does.
  std::byte* block(int rank) const;
  int64_t bytes() const { return bytes_; }

 private:
  class Mapping;

  int64_t bytes_;
  Handle handle_;
  std::shared_ptr<Mapping> mine_;
  std::vector<std::shared_ptr<Mapping>> blocks_;  // by rank
};

/// Blocks of `bytes` zeros of all ranks of the channel, or null on every rank if some cannot reach
/// each other. A collective.
std::shared_ptr<SharedMemory> share_memory(Channel& channel, int64_t bytes);

}  // namespace capstan::distributed
