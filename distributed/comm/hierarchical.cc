// Implements the hierarchical all-reduce.
//
// The buffer of S bytes is cut into m parts, one for each place on a host. Then
//
//   1. reduce-scatter within each host: the rank at place p combines part p of its host's ranks;
//   2. ring all-reduce across hosts, of the ranks at place p among themselves, of part p;
//   3. all-gather within each host.
//
//            host A                    host B                     (H = 2, m = 2; halves a, b)
//            rank 0      rank 1        rank 2      rank 3
//   step 1   a of 0,1    b of 0,1      a of 2,3    b of 2,3       in memory
//   step 2   a of all    b of all      a of all    b of all       rings 0-2 and 1-3 at once
//   step 3   a b         a b           a b         a b            in memory
//
// Cost on each rank: 2(m-1)/m S bytes in memory, and 2(H-1)/H S/m over the network, in 2(H-1)
// steps. A ring over all ranks has 2(Hm-1) steps, each as slow as its slowest link, and as many
// bytes leave each host; but through one rank, one connection. Together the bytes are those of a
// ring: 2(m-1)/m + 2(H-1)/(Hm) = 2(n-1)/n for n = Hm.
//
// Within a host parts travel on the board's stages, a piece at a time, all parts at once.
#include "distributed/comm/hierarchical.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "distributed/comm/blocks.h"
#include "distributed/comm/ring.h"

namespace capstan::distributed {
namespace {

// The parts of a buffer, by place on a host; in elements.
class HostParts {
 public:
  HostParts(Channel& channel, Dtype dtype, void* data, const Parts& parts)
      : channel_(channel),
        dtype_(dtype),
        item_(item_size(dtype)),
        data_(static_cast<std::byte*>(data)),
        parts_(parts),
        ranks_(static_cast<int>(channel.here().size())),
        place_(channel.place()) {
    for (int p = 0; p < ranks_; ++p) longest_ = std::max(longest_, parts[p + 1] - parts[p]);
  }

  // Leaves the combination of this place's part in its place.
  void reduce_scatter(Reduce op) {
    const int64_t piece = Board::kStageBytes / ranks_ / kLine * kLine / item_;
    for (int64_t begin = 0; begin < longest_; begin += piece) {
      const int64_t use = channel_.next_stage();
      const auto place_on_stage = [&](int owner, int part) {
        return channel_.stage(channel_.here()[owner], use) + part * piece * item_;
      };
      for (int p = 0; p < ranks_; ++p) {
        if (p != place_) copy(at(p, begin), place_on_stage(place_, p), length(p, begin, piece));
      }
      channel_.meet();
      std::byte* mine = at(place_, begin);
      combine_blocks(
          channel_, ranks_, op, dtype_, 0, length(place_, begin, piece),
          [&](int p) -> const std::byte* { return p == place_ ? mine : place_on_stage(p, place_); },
          [&](int64_t offset, const std::byte* result, int64_t bytes) {
            std::memcpy(mine + offset, result, bytes);
          });
    }
    channel_.count_sent((parts_[ranks_] - own()) * item_);
  }

  // Copies each place's part to all.
  void all_gather() {
    const int64_t piece = Board::kStageBytes / item_;
    for (int64_t begin = 0; begin < longest_; begin += piece) {
      const int64_t use = channel_.next_stage();
      const auto stage = [&](int p) { return channel_.stage(channel_.here()[p], use); };
      copy(at(place_, begin), stage(place_), length(place_, begin, piece));
      channel_.meet();
      for (int p = 0; p < ranks_; ++p) {
        if (p != place_) copy(stage(p), at(p, begin), length(p, begin, piece));
      }
    }
    channel_.count_sent((ranks_ - 1) * own() * item_);
  }

  std::byte* mine() const { return at(place_, 0); }
  int64_t own() const { return parts_[place_ + 1] - parts_[place_]; }

 private:
  std::byte* at(int place, int64_t begin) const { return data_ + (parts_[place] + begin) * item_; }
  int64_t length(int place, int64_t begin, int64_t piece) const {
    return std::clamp<int64_t>(parts_[place + 1] - parts_[place] - begin, 0, piece);
  }
  void copy(const std::byte* from, std::byte* to, int64_t count) const {
    if (count > 0) std::memcpy(to, from, count * item_);
  }

  Channel& channel_;
  const Dtype dtype_;
  const int64_t item_;
  std::byte* const data_;
  const Parts& parts_;
  const int ranks_, place_;
  int64_t longest_ = 0;
};

}  // namespace

void hierarchical_all_reduce(Channel& channel, Reduce op, Dtype dtype, void* data, int64_t count) {
  if (channel.size() == 1) return;
  const auto& hosts = channel.ranks_by_host();
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto places = static_cast<int>(std::ranges::min_element(hosts, fewer)->size());
  Parts parts = slices_of(count, dtype, places);
  parts.resize(channel.here().size() + 1, count);  // places beyond have none

  HostParts here(channel, dtype, data, parts);
  const bool shares = channel.here().size() > 1;
  if (shares) here.reduce_scatter(op);
  if (channel.place() < places) {
    std::vector<int> ranks;  // at this place, one of each host
    for (const auto& host : hosts) ranks.push_back(host[channel.place()]);
    const Channel::Among among(channel, ranks);
    ring_all_reduce(channel, op, dtype, here.mine(), here.own());
  }
  if (shares) here.all_gather();
  channel.finish();
}

}  // namespace capstan::distributed
