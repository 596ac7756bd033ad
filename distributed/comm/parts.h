// Defines how algorithms cut a tensor: into a part for each rank, and parts into pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "distributed/comm/transport.h"

namespace capstan::distributed {

/// Where the ranks' parts of a buffer begin, in elements: part r is [starts[r], starts[r+1]).
using Parts = std::vector<int64_t>;

/// `count` elements in `ranks` parts whose lengths differ by at most one, longer ones first.
inline Parts even_parts(int64_t count, int ranks) {
  Parts starts(ranks + 1);
  const int64_t length = count / ranks, longer = count % ranks;
  for (int r = 0; r <= ranks; ++r) starts[r] = r * length + std::min<int64_t>(r, longer);
  return starts;
}

/// Calls f(offset, count) for the pieces of elements [begin, end), of `item` bytes each; at least
/// once. A piece is what fits into one message.
template <class F>
void for_each_piece(int64_t begin, int64_t end, int64_t item, const F& f) {
  const int64_t length = kPieceBytes / item;
  do {
    const int64_t count = std::min(length, end - begin);
    f(begin, count);
    begin += count;
  } while (begin < end);
}

}  // namespace capstan::distributed
