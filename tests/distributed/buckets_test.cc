// plan_buckets() against known answers and its own rules.
#include "distributed/buckets.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/random.h"

namespace capstan::distributed {
namespace {

std::vector<BucketItem> floats(std::initializer_list<int64_t> elements) {
  std::vector<BucketItem> items;
  for (int64_t n : elements) items.push_back({n * 4, Dtype::float32});
  return items;
}

BucketPlan plan(const std::vector<BucketItem>& items, std::initializer_list<int64_t> limits) {
  return plan_buckets(items, std::vector<int64_t>(limits));
}

TEST_CASE("a bucket closes once it has reached its limit") {
  CHECK(plan(floats({100, 200, 100, 50}), {400}) == BucketPlan{{0}, {1}, {2}, {3}});
  CHECK(plan(floats({10, 10, 10, 10}), {40, 80}) == BucketPlan{{0}, {1, 2}, {3}});
  CHECK(plan(floats({1, 1, 1}), {0}) == BucketPlan{{0}, {1}, {2}});
  CHECK(plan(floats({1, 1, 1}), {1 << 20}) == BucketPlan{{0, 1, 2}});
}

TEST_CASE("a bucket has one dtype") {
  std::vector<BucketItem> items;
  for (int i = 0; i < 3; ++i) {
    items.push_back({50 * 4, Dtype::float32});
    items.push_back({25 * 8, Dtype::float64});
  }
  CHECK(plan(items, {400}) == BucketPlan{{0, 2}, {1, 3}, {4}, {5}});
}

TEST_CASE("no items make no buckets, and no limits are an error") {
  CHECK(plan({}, {400}).empty());
  CHECK_THROWS_WITH_AS(plan(floats({1}), {}), "[plan_buckets] needs at least one limit",
                       ValueError);
}

TEST_CASE(
    "whatever the items, each is in one bucket, in order, and only last buckets are below the "
    "limit") {
  Generator generator(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<BucketItem> items(generator.below(20));
    for (BucketItem& item : items) {
      item.dtype = generator.below(2) ? Dtype::float32 : Dtype::float64;
      item.bytes = static_cast<int64_t>(generator.below(500));
    }
    const int64_t limit = static_cast<int64_t>(generator.below(1000));
    std::vector<int> seen(items.size());
    int below[2] = {0, 0};
    for (const auto& bucket : plan(items, {limit})) {
      int64_t bytes = 0;
      for (size_t i = 0; i < bucket.size(); ++i) {
        ++seen[bucket[i]];
        CHECK(items[bucket[i]].dtype == items[bucket[0]].dtype);
        if (i > 0) CHECK(bucket[i] > bucket[i - 1]);
        if (i > 0) CHECK(bytes < limit);
        bytes += items[bucket[i]].bytes;
      }
      if (bytes < limit) ++below[items[bucket[0]].dtype == Dtype::float64];
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    CHECK(below[0] <= 1);
    CHECK(below[1] <= 1);
  }
}

}  // namespace
}  // namespace capstan::distributed
