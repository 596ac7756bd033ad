// Defines combine_blocks(), which combines what several ranks laid out in memory that they share,
// and slices_of(), which ranks share that work out by.
//
// The order is a balanced binary tree over the ranks (of n ranks, the largest power of two below n
// goes to the left), for every element alike; a sum of 2^k ranks is the upper part of any larger
// tree.
#pragma once

#include <algorithm>
#include <bit>

#include "distributed/comm/channel.h"
#include "distributed/comm/combine.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {

/// Bytes of a block: those of all ranks together fit a cache of the first level.
inline constexpr int64_t kBlockBytes = 4 << 10;
inline constexpr int64_t kLine = 64;  // no two ranks write to one cache line

/// Combines `count` elements of ranks [first, last), rank r's at source(r), and returns where the
/// result is: in `scratch` (kBlockBytes for each level of the tree), or in the only source.
template <class Source>
const std::byte* combine_tree(Reduce op, Dtype dtype, const Source& source, int64_t count,
                              int first, int last, std::byte* scratch) {
  const int ranks = last - first;
  if (ranks == 1) return source(first);
  const int middle = first + static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1)));
  const std::byte* left = combine_tree(op, dtype, source, count, first, middle, scratch);
  const std::byte* right =
      combine_tree(op, dtype, source, count, middle, last, scratch + kBlockBytes);
  combine(op, dtype, left, right, scratch, count);
  return scratch;
}

/// Combines elements [begin, end) of the sources of so many ranks, block by block, and hands each
/// result to sink(at, bytes, length), `at` in bytes from the sources' begin.
template <class Source, class Sink>
void combine_blocks(Channel& channel, int ranks, Reduce op, Dtype dtype, int64_t begin, int64_t end,
                    const Source& source, const Sink& sink) {
  const int64_t item = item_size(dtype), block = kBlockBytes / item;
  std::byte* scratch = channel.scratch(kBlockBytes * ranks);
  for (int64_t i = begin; i < end; i += block) {
    const int64_t count = std::min(block, end - i), at = i * item;
    const auto source_here = [&](int r) { return source(r) + at; };
    sink(at, combine_tree(op, dtype, source_here, count, 0, ranks, scratch), count * item);
  }
}

/// `count` elements in slices that begin on cache lines, if the first one does.
inline Parts slices_of(int64_t count, Dtype dtype, int ranks) {
  const int64_t line = kLine / item_size(dtype);
  Parts slices = even_parts((count + line - 1) / line, ranks);
  for (int64_t& start : slices) start = std::min(count, start * line);
  return slices;
}

}  // namespace capstan::distributed
