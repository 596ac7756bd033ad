// Implements all-reduce through shared memory.
//
// Tensors in shared memory, S bytes on n ranks. When all ranks have come, rank r combines slice r
// of all buffers, block by block while the block is in its cache, and writes the result to slice r
// of all buffers. When all ranks have done so, the buffers hold the result:
//
//             slice 0                 slice 1
//   rank 0    reads 0, 1 -> writes    .                       (n = 2)
//   rank 1    .                       reads 0, 1 -> writes
//
// Cost on each rank: S bytes read and S bytes written, two meetings, no message. A ring between the
// same ranks reads and writes 2(n-1)/n S bytes twice: into the memory where messages travel, and
// out of it.
//
// Other tensors go through stages, pieces of 64 KB of shared memory, one piece after the other:
// each rank lays out what the others will combine, all slices but its own; when all have, rank r
// combines slice r and lays out the result; when all have, each collects the others' results. While
// ranks wait for each other they lay out the next piece on a second stage. Cost on each rank: S
// bytes to the stages and 2(n-1)/n S from them, in the caches, and two meetings a piece. Few bytes
// take one meeting: each rank combines all of them itself.
//
// The order of combining is a balanced binary tree over the ranks (blocks.h), for every element
// alike: so every rank gets the same bits.
#include "distributed/comm/shared_all_reduce.h"

#include <algorithm>
#include <cstring>

#include "distributed/comm/blocks.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {
namespace {

// Up to so many bytes, on all ranks together, a second meeting costs more than combining them all.
constexpr int64_t kFewBytes = 32 << 10;

}  // namespace

void shared_all_reduce(Channel& channel, Reduce op, Dtype dtype, const SharedMemory& memory,
                       int64_t offset, int64_t count) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype);
  const Parts slices = slices_of(count, dtype, n);
  const auto buffer = [&](int r) { return memory.block(r) + offset * item; };
  channel.meet();  // all numbers are there
  combine_blocks(channel, n, op, dtype, slices[rank], slices[rank + 1], buffer,
                 [&](int64_t at, const std::byte* result, int64_t bytes) {
                   for (int r = 0; r < n; ++r) std::memcpy(buffer(r) + at, result, bytes);
                 });
  channel.count_sent(2 * (n - 1) * (slices[rank + 1] - slices[rank]) * item);
  channel.meet();  // all results are there
}

void staged_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype), bytes = count * item;
  auto* mine = static_cast<std::byte*>(data);
  int64_t use = channel.next_stage();
  const auto stage = [&](int r) { return channel.stage(r, use); };

  if (bytes * n <= kFewBytes) {
    if (bytes > 0) std::memcpy(stage(rank), mine, bytes);
    channel.meet();
    combine_blocks(channel, n, op, dtype, 0, count, stage,
                   [&](int64_t at, const std::byte* result, int64_t length) {
                     std::memcpy(mine + at, result, length);
                   });
    channel.count_sent((n - 1) * bytes);
    return;
  }

  const int64_t piece = Board::kStageBytes / item;
  // Copies the slices of a piece but this rank's own.
  const auto copy_slices = [&](const Parts& slices, const auto& from, const auto& to) {
    for (int r = 0; r < n; ++r) {
      const int64_t at = slices[r] * item, length = (slices[r + 1] - slices[r]) * item;
      if (r != rank && length > 0) std::memcpy(to(r) + at, from(r) + at, length);
    }
  };
  const auto lay_out = [&](int64_t begin, int64_t on) {
    copy_slices(
        slices_of(std::min(piece, count - begin), dtype, n),
        [&](int) { return mine + begin * item; }, [&](int) { return channel.stage(rank, on); });
  };
  lay_out(0, use);
  for (int64_t begin = 0; begin < count; begin += piece) {
    const Parts slices = slices_of(std::min(piece, count - begin), dtype, n);
    std::byte* here = mine + begin * item;
    channel.meet();  // all have laid out this piece
    combine_blocks(
        channel, n, op, dtype, slices[rank], slices[rank + 1],
        [&](int r) -> const std::byte* { return r == rank ? here : stage(r); },
        [&](int64_t at, const std::byte* result, int64_t length) {
          std::memcpy(here + at, result, length);
          std::memcpy(stage(rank) + at, result, length);
        });
    channel.count_sent(2 * (n - 1) * (slices[rank + 1] - slices[rank]) * item);
    const bool more = begin + piece < count;
    const int64_t next = more ? channel.next_stage() : use;
    if (more) lay_out(begin + piece, next);
    channel.meet();  // all have laid out their results
    copy_slices(slices, stage, [&](int) { return here; });
    use = next;
  }
}

}  // namespace capstan::distributed
