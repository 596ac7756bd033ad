// Defines SharedMemory, equal blocks of memory, one made by each rank, that all ranks of its host
// reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace capstan::distributed {

class Channel;

class SharedMemory {
 public:
  /// A block as this process sees it.
  class Mapping;

  /// The ranks' blocks, of `bytes` bytes each.
  SharedMemory(int64_t bytes, std::vector<std::shared_ptr<Mapping>> blocks);

  /// Rank r's block, of a rank of this host; it stays as long as this object, whatever its owner
  /// does.
  std::byte* block(int rank) const;
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  std::vector<std::shared_ptr<Mapping>> blocks_;  // by rank
};

/// Blocks of `bytes` zeros of all ranks of the channel, shared by those of each host; null on every
/// rank if some of one host cannot reach each other. A collective.
std::shared_ptr<SharedMemory> share_memory(Channel& channel, int64_t bytes);

}  // namespace capstan::distributed
