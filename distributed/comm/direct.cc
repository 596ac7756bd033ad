// Implements the direct algorithms; each is explained in the header.
#include "distributed/comm/direct.h"

#include <cstring>

#include "distributed/comm/blocks.h"

namespace capstan::distributed {
namespace {

// A rank's own part may already be in its place.
void copy_part(const void* from, void* to, int64_t bytes) {
  if (bytes > 0 && from != to) std::memmove(to, from, bytes);
}

}  // namespace

void direct_gather(Channel& channel, int root, const void* mine, void* all, int64_t bytes) {
  if (channel.rank() != root) {
    channel.send(root, mine, bytes);
  } else {
    auto* parts = static_cast<std::byte*>(all);
    for (int r = 0; r < channel.size(); ++r) {
      if (r != root) channel.receive(r, parts + r * bytes, bytes);
    }
    copy_part(mine, parts + root * bytes, bytes);
  }
  channel.finish();
}

void direct_scatter(Channel& channel, int root, const void* all, void* mine, int64_t bytes) {
  if (channel.rank() != root) {
    channel.receive(root, mine, bytes);
  } else {
    const auto* parts = static_cast<const std::byte*>(all);
    for (int r = 0; r < channel.size(); ++r) {
      if (r != root) channel.send(r, parts + r * bytes, bytes);
    }
    copy_part(parts + root * bytes, mine, bytes);
  }
  channel.finish();
}

void direct_all_to_all(Channel& channel, Dtype dtype, const void* out, const Parts& sent, void* in,
                       const Parts& received) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype);
  const auto* from = static_cast<const std::byte*>(out);
  auto* to = static_cast<std::byte*>(in);
  const auto length = [&](const Parts& parts, int r) { return (parts[r + 1] - parts[r]) * item; };
  copy_part(from + sent[rank] * item, to + received[rank] * item, length(sent, rank));
  for (int step = 1; step < n; ++step) {
    const int target = (rank + step) % n, source = (rank - step + n) % n;
    channel.send(target, from + sent[target] * item, length(sent, target));
    channel.receive(source, to + received[source] * item, length(received, source));
  }
  channel.finish();
}

void direct_reduce_scatter(Channel& channel, Reduce op, Dtype dtype, const void* in, void* mine,
                           const Parts& parts) {
  const int n = channel.size(), rank = channel.rank();
  const int64_t item = item_size(dtype), count = parts[rank + 1] - parts[rank];
  const auto* from = static_cast<const std::byte*>(in);
  auto* out = static_cast<std::byte*>(mine);
  for (int step = 1; step < n; ++step) {
    const int target = (rank + step) % n;
    channel.send(target, from + parts[target] * item, (parts[target + 1] - parts[target]) * item);
  }
  // What combine_blocks() works with comes first, then a piece of each rank's.
  std::byte* arrived = channel.scratch(kBlockBytes * n + kPieceBytes * n) + kBlockBytes * n;
  const auto source = [&](int r) { return arrived + r * kPieceBytes; };
  for_each_piece(0, count, item, [&](int64_t begin, int64_t length) {
    for (int step = 1; step < n; ++step) {
      const int r = (rank - step + n) % n;
      channel.receive(r, arrived + r * kPieceBytes, length * item);
    }
    copy_part(from + (parts[rank] + begin) * item, source(rank), length * item);
    combine_blocks(channel, n, op, dtype, 0, length, source,
                   [&](int64_t at, const std::byte* result, int64_t bytes) {
                     std::memcpy(out + begin * item + at, result, bytes);
                   });
  });
  channel.finish();
}

void dissemination_barrier(Channel& channel) {
  const int n = channel.size(), rank = channel.rank();
  for (int distance = 1; distance < n; distance *= 2) {
    channel.send((rank + distance) % n, nullptr, 0);
    channel.receive((rank - distance + n) % n, nullptr, 0);
  }
  channel.finish();
}

}  // namespace capstan::distributed
