// Implements the algorithms on shared memory.
//
// All-reduce of S bytes on n ranks. When all ranks have come, rank r combines slice r of all
// buffers, block by block while the block is in its cache, and writes the result to slice r of all
// buffers. When all ranks have done so, the buffers hold the result:
//
//             slice 0                 slice 1
//   rank 0    reads 0, 1 -> writes    .                       (n = 2)
//   rank 1    .                       reads 0, 1 -> writes
//
// Cost on each rank: S bytes read and S bytes written, two meetings, no message. A ring between the
// same ranks reads and writes 2(n-1)/n S bytes twice: into the memory where messages travel, and
// out of it.
//
// The order of combining is a balanced binary tree over the ranks (of n ranks, the largest power of
// two below n goes to the left), for every element alike: so every rank gets the same bits, and a
// sum of 2^k ranks is the upper part of any larger tree.
#include "distributed/comm/shared.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "distributed/comm/board.h"
#include "distributed/comm/combine.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {
namespace {

// Bytes of a block: those of all ranks together fit a cache of the first level.
constexpr int64_t kBlockBytes = 4 << 10;
constexpr int64_t kLine = 64;  // no two ranks write to one cache line

// Combines the blocks of ranks [first, last), at `at` in each, and returns where the result is: in
// `scratch` (kBlockBytes for each level of the tree), or in the only block.
const std::byte* combine_tree(Reduce op, Dtype dtype, const SharedMemory& memory, int64_t at,
                              int64_t count, int first, int last, std::byte* scratch) {
  const int ranks = last - first;
  if (ranks == 1) return memory.block(first) + at;
  const int middle = first + static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1)));
  const auto half = [&](int from, int to, std::byte* space) {
    return combine_tree(op, dtype, memory, at, count, from, to, space);
  };
  const std::byte* left = half(first, middle, scratch);
  const std::byte* right = half(middle, last, scratch + kBlockBytes);
  combine(op, dtype, left, right, scratch, count);
  return scratch;
}

}  // namespace

void shared_all_reduce(Channel& channel, Reduce op, Dtype dtype, const SharedMemory& memory,
                       int64_t offset, int64_t count) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype), line = kLine / item, block = kBlockBytes / item;
  channel.meet();  // all numbers are there

  const Parts lines = even_parts((count + line - 1) / line, n);
  const int64_t begin = std::min(count, lines[rank] * line);
  const int64_t end = std::min(count, lines[rank + 1] * line);
  std::byte* scratch = channel.scratch(kBlockBytes * n);
  for (int64_t i = begin; i < end; i += block) {
    const int64_t length = std::min(block, end - i), at = (offset + i) * item;
    const std::byte* result = combine_tree(op, dtype, memory, at, length, 0, n, scratch);
    for (int r = 0; r < n; ++r) std::memcpy(memory.block(r) + at, result, length * item);
  }
  channel.count_sent(2 * (n - 1) * (end - begin) * item);

  channel.meet();  // all results are there
}

}  // namespace capstan::distributed
