// Implements the ring algorithms.
//
// The ranks stand in a circle; each only ever sends to its right neighbour and receives from its
// left one. The buffer of S bytes is cut into n parts, one a rank.
//
// Reduce-scatter. Part p sets out from rank p+1, and every rank that it passes adds its own numbers
// before handing it on; after n-1 hops it arrives, complete, at rank p. All parts travel at once,
// each one hop apart, so every link is busy in every step:
//
//            rank 0      rank 1      rank 2        (n = 3; [p] = ranks added into part p so far)
//   step 0   sends 2     sends 0     sends 1
//            1[2,0]      2[0,1]      0[1,2]
//   step 1   sends 1     sends 2     sends 0
//            0[1,2,0]    1[2,0,1]    2[0,1,2]      rank p holds part p
//
// All-gather. The complete parts go round once more, now only copied.
//
// Cost on each rank: n-1 steps and (n-1)/n S bytes sent, for each of the two; so an all-reduce
// takes 2(n-1) steps and 2(n-1)/n S bytes, which for many ranks tends to 2S, whatever their number.
// The price is latency: the steps grow with n, so small tensors on many ranks want a tree.
//
// Each part is added up in one place at a time, in a fixed order of ranks, and then only copied: so
// all ranks end with the same bits.
//
// Parts travel in pieces, and a rank hands on a piece as soon as it has it: while it adds one, the
// next arrives.
#include "distributed/comm/ring.h"

#include <algorithm>

#include "distributed/comm/combine.h"

namespace capstan::distributed {
namespace {

int wrap(int rank, int ranks) { return (rank % ranks + ranks) % ranks; }

}  // namespace

void ring_reduce_scatter(Channel& channel, Reduce op, Dtype dtype, const void* in, void* out,
                         const Parts& parts) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype);
  const auto* mine = static_cast<const std::byte*>(in);
  auto* sums = static_cast<std::byte*>(out);
  if (n == 1) {
    if (in != out) std::copy_n(mine, parts[1] * item, sums);
    return;
  }
  std::byte* arrived = channel.scratch(kPieceBytes);
  const int first = wrap(rank - 1, n);
  channel.send(channel.right(), mine + parts[first] * item,
               (parts[first + 1] - parts[first]) * item);
  for (int step = 0; step < n - 1; ++step) {
    const int part = wrap(rank - 2 - step, n);
    for_each_piece(parts[part], parts[part + 1], item, [&](int64_t offset, int64_t count) {
      channel.receive(channel.left(), arrived, count * item);
      combine(op, dtype, arrived, mine + offset * item, sums + offset * item, count);
      if (step < n - 2) channel.send(channel.right(), sums + offset * item, count * item);
    });
  }
  channel.finish();
}

void ring_all_gather(Channel& channel, Dtype dtype, void* data, const Parts& parts) {
  const int n = channel.size(), rank = channel.rank();
  if (n == 1) return;
  const int64_t item = item_size(dtype);
  auto* all = static_cast<std::byte*>(data);
  channel.send(channel.right(), all + parts[rank] * item, (parts[rank + 1] - parts[rank]) * item);
  for (int step = 0; step < n - 1; ++step) {
    const int part = wrap(rank - 1 - step, n);
    for_each_piece(parts[part], parts[part + 1], item, [&](int64_t offset, int64_t count) {
      channel.receive(channel.left(), all + offset * item, count * item);
      if (step < n - 2) channel.send(channel.right(), all + offset * item, count * item);
    });
  }
  channel.finish();
}

void ring_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count) {
  const Parts parts = even_parts(count, channel.size());
  ring_reduce_scatter(channel, op, dtype, data, data, parts);
  ring_all_gather(channel, dtype, data, parts);
}

}  // namespace capstan::distributed
