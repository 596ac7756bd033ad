// Implements recursive halving and doubling.
//
// Halving. Partners exchange halves of what they hold: the lower rank of a pair keeps the lower
// half, the upper rank the upper one, and each adds what it gets. Then the same with a partner
// twice as far away and half as much data, until each rank holds one n-th of the sum:
//
//            rank 0      rank 1      rank 2      rank 3         (n = 4; quarters a b c d of S)
//   step 0   keeps a b   keeps c d   keeps a b   keeps c d      partners 0-1, 2-3
//   step 1   keeps a     keeps c     keeps b     keeps d        partners 0-2, 1-3
//
// Doubling goes the same way back, now only copying, until all hold everything.
//
// Cost on each rank: S/2 + S/4 + ... = (n-1)/n S bytes for each of the two, like the ring, in
// 2 log2(n) steps instead of 2(n-1); but partners are far away, so the bytes cross more links.
//
// Every element is summed as a balanced tree, ((0 + 1) + (2 + 3)) + ...: so the sum over 2^k ranks
// is the upper part of the same tree over any finer leaves.
//
// When n is not a power of two, the first ranks pair up: of 2m ranks, m hand their data to their
// partner before, and get the result after.
#include "distributed/comm/halving_doubling.h"

#include <bit>
#include <utility>
#include <vector>

#include "distributed/comm/combine.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {

void halving_doubling_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data,
                                 int64_t count) {
  const int n = channel.size(), rank = channel.rank();
  if (n == 1) return;
  const int64_t item = item_size(dtype);
  auto* all = static_cast<std::byte*>(data);
  using Range = std::pair<int64_t, int64_t>;
  const auto send = [&](int peer, Range range) {
    channel.send(peer, all + range.first * item, (range.second - range.first) * item);
  };
  const auto receive = [&](int peer, Range range) {
    channel.receive(peer, all + range.first * item, (range.second - range.first) * item);
  };
  std::byte* arrived = channel.scratch(kPieceBytes);
  const auto receive_and_combine = [&](int peer, Range range) {
    for_each_piece(range.first, range.second, item, [&](int64_t offset, int64_t length) {
      channel.receive(peer, arrived, length * item);
      std::byte* mine = all + offset * item;
      const bool left = peer < rank;
      combine(op, dtype, left ? arrived : mine, left ? mine : arrived, mine, length);
    });
  };

  // Among `power` ranks the numbers are v; real(v) are the channel's.
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n))), pairs = n - power;
  const auto real = [&](int v) { return v < pairs ? 2 * v : v + pairs; };
  const Range everything{0, count};
  const bool paired = rank < 2 * pairs;
  if (paired && rank % 2 == 1) {
    send(rank - 1, everything);
    channel.finish();
    receive(rank - 1, everything);
    return channel.finish();
  }
  if (paired) receive_and_combine(rank + 1, everything);
  const int v = paired ? rank / 2 : rank - pairs;

  std::vector<Range> held{everything};  // before each step
  for (int distance = 1; distance < power; distance *= 2) {
    const auto [begin, end] = held.back();
    const int64_t middle = begin + (end - begin) / 2;
    const Range lower{begin, middle}, upper{middle, end};
    const bool keep_lower = !(v & distance);
    send(real(v ^ distance), keep_lower ? upper : lower);
    held.push_back(keep_lower ? lower : upper);
    receive_and_combine(real(v ^ distance), held.back());
  }
  channel.finish();  // before what was sent is written over
  for (int distance = power / 2; distance > 0; distance /= 2) {
    const Range mine = held.back();
    held.pop_back();
    const auto [begin, end] = held.back();
    const bool kept_lower = !(v & distance);
    send(real(v ^ distance), mine);
    receive(real(v ^ distance), kept_lower ? Range{mine.second, end} : Range{begin, mine.first});
  }
  if (paired) send(rank + 1, everything);
  channel.finish();
}

}  // namespace capstan::distributed
