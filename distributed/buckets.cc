#include "distributed/buckets.h"

#include <algorithm>
#include <map>

#include "core/allocator.h"
#include "core/raise.h"

namespace capstan::distributed {

int64_t aligned(int64_t elements, Dtype dtype) {
  const int64_t line = Allocator::kAlignment / item_size(dtype);
  return (elements + line - 1) / line * line;
}

BucketPlan plan_buckets(std::span<const BucketItem> items, std::span<const int64_t> limits) {
  if (limits.empty()) raise<ValueError>("[plan_buckets] needs at least one limit");
  struct Open {
    std::vector<int> items;
    int64_t bytes = 0;
    size_t closed = 0;  // buckets of this dtype so far
  };
  std::map<Dtype, Open> open;
  BucketPlan plan;
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    Open& bucket = open[items[i].dtype];
    bucket.items.push_back(i);
    bucket.bytes += items[i].bytes;
    if (bucket.bytes >= limits[std::min(bucket.closed, limits.size() - 1)]) {
      plan.push_back(std::move(bucket.items));
      bucket = {.items = {}, .bytes = 0, .closed = bucket.closed + 1};
    }
  }
  for (auto& [_, bucket] : open) {
    if (!bucket.items.empty()) plan.push_back(std::move(bucket.items));
  }
  std::sort(plan.begin(), plan.end());
  return plan;
}

}  // namespace capstan::distributed
