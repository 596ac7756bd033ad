// Implements check_replicas().
#include "distributed/replica_check.h"

#include <map>

#include "core/raise.h"
#include "core/sha256.h"

namespace capstan::distributed {
namespace {

/// The first 8 bytes of the SHA-256 of the elements.
int64_t digest(const Tensor& tensor) {
  const Tensor dense = tensor.is_contiguous() ? tensor : dense_copy(tensor);
  const std::string hex = sha256_hex(
      {static_cast<const std::byte*>(dense.address()), static_cast<size_t>(dense.bytes())});
  return static_cast<int64_t>(std::stoull(hex.substr(0, 16), nullptr, 16));
}

/// "ranks 0, 1 have 5d3f..., rank 2 has 07aa..."
std::string describe(const std::vector<int64_t>& digests) {
  std::map<int64_t, std::string> holders;
  std::vector<int64_t> seen;  // in the order of the lowest ranks
  for (size_t r = 0; r < digests.size(); ++r) {
    std::string& ranks = holders[digests[r]];
    if (ranks.empty()) seen.push_back(digests[r]);
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  std::string text;
  for (int64_t value : seen) {
    const bool several = holders[value].find(',') != std::string::npos;
    text += fmt::format("{}{} {} {} {:016x}", text.empty() ? "" : ", ", several ? "ranks" : "rank",
                        holders[value], several ? "have" : "has", static_cast<uint64_t>(value));
  }
  return text;
}

}  // namespace

void check_replicas(const NamedTensors& tensors, Communicator& communicator) {
  const int64_t count = std::ssize(tensors), ranks = communicator.size();
  const Tensor mine = empty({count}, {.dtype = Dtype::int64});
  for (int64_t i = 0; i < count; ++i) mine.mutable_data<int64_t>()[i] = digest(tensors[i].second);
  const Tensor all = empty({ranks, count}, {.dtype = Dtype::int64});
  communicator.all_gather(mine, all, "check of replicas").wait();

  const int64_t* digests = all.data<int64_t>();
  std::string first;
  int64_t differing = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> of_ranks;
    for (int64_t r = 0; r < ranks; ++r) of_ranks.push_back(digests[r * count + i]);
    if (std::all_of(of_ranks.begin(), of_ranks.end(),
                    [&](int64_t d) { return d == of_ranks[0]; })) {
      continue;
    }
    if (differing++ == 0) first = fmt::format("'{}': {}", tensors[i].first, describe(of_ranks));
  }
  if (differing == 0) return;
  raise<SharedError>("[check_replicas] the ranks differ in {} of {} tensors, the first is {}",
                     differing, count, first);
}

}  // namespace capstan::distributed
