// Implements what all transports have in common.
#include "distributed/comm/transport.h"

#include <algorithm>

#include "core/raise.h"

namespace capstan::distributed {

std::string Transport::name(int rank) const {
  return fmt::format("rank {} on {}", rank, host(rank));
}

std::vector<int> Transport::members_of(int color, const std::vector<int>& colors,
                                       const std::vector<int>& keys) {
  std::vector<int> members;
  for (size_t r = 0; r < colors.size(); ++r) {
    if (colors[r] == color) members.push_back(static_cast<int>(r));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  return members;
}

void Transport::check_size(int peer, int64_t sent, int64_t expected) const {
  if (sent == expected) return;
  raise<CommError>("[communicator] {} sent {} bytes where {} expected {}", name(peer), sent,
                   name(rank()), expected);
}

}  // namespace capstan::distributed
