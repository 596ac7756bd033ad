// Implements the tree algorithms.
//
// Number the ranks from the root: v = (rank - root) mod n. The parent of v is v with its lowest set
// bit cleared; the children of v are v + 2^k for every 2^k below that bit (for the root: every 2^k
// below n). With n = 8:
//
//        0
//     /  |  \                 node 0 has the children 4, 2, 1; node 4 has 6, 5; node 2 has 3;
//    4   2   1                node 6 has 7
//   / \  |
//  6   5 3
//  |
//  7
//
// The number of ranks that hold the data doubles in every step, so a broadcast of S bytes takes
// log2(n) steps of S bytes; a reduce is the same tree climbed from the leaves. A rank sends S bytes
// to each child (reduce: once, to its parent). Good for small data and for rare broadcasts; the
// ring moves large tensors with fewer bytes through the busiest rank.
//
// Pieces are handed on as they arrive, so long data flows through all levels at once.
#include "distributed/comm/tree.h"

#include <algorithm>
#include <vector>

#include "distributed/comm/combine.h"

namespace capstan::distributed {
namespace {

struct Place {
  int parent = -1;            // -1 at the root
  std::vector<int> children;  // largest subtree first, so that the longest way starts first
};

Place place_in_tree(int rank, int size, int root) {
  const int v = (rank - root + size) % size;
  const auto real = [&](int node) { return (node + root) % size; };
  Place place;
  int bit = 1;
  while (bit < size && !(v & bit)) bit <<= 1;
  if (v != 0) place.parent = real(v - bit);
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (v + bit < size) place.children.push_back(real(v + bit));
  }
  return place;
}

}  // namespace

void tree_broadcast(Channel& channel, int root, void* data, int64_t bytes) {
  const Place place = place_in_tree(channel.rank(), channel.size(), root);
  auto* all = static_cast<std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    if (place.parent >= 0) channel.receive(place.parent, all + done, piece);
    for (int child : place.children) channel.send(child, all + done, piece);
    done += piece;
  } while (done < bytes);
  channel.finish();
}

void tree_reduce(Channel& channel, Reduce op, Dtype dtype, int root, void* data, int64_t count) {
  const Place place = place_in_tree(channel.rank(), channel.size(), root);
  const int64_t item = item_size(dtype), length = kPieceBytes / item;
  auto* all = static_cast<std::byte*>(data);
  // The root adds in place; a leaf sends what it has; a rank between adds in scratch memory.
  const bool between = place.parent >= 0 && !place.children.empty();
  std::byte* arrived = channel.scratch(kPieceBytes + (between ? count * item : 0));
  std::byte* sums = between ? arrived + kPieceBytes : all;
  int64_t offset = 0;
  do {
    const int64_t piece = std::min(length, count - offset);
    std::byte* sum = sums + offset * item;
    const std::byte* mine = all + offset * item;
    for (int child : place.children) {
      channel.receive(child, arrived, piece * item);
      combine(op, dtype, mine, arrived, sum, piece);
      mine = sum;
    }
    if (place.parent >= 0) channel.send(place.parent, sum, piece * item);
    offset += piece;
  } while (offset < count);
  channel.finish();
}

}  // namespace capstan::distributed
