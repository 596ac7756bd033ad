#include "data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>

#include "core/error.h"

using namespace capstan;
using namespace capstan::data;

namespace {

using Indices = std::vector<int64_t>;

/// Samples that are their own numbers. Counts the batches made; can be slow, or fail at one sample.
class NumberDataset : public Dataset {
 public:
  explicit NumberDataset(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  Batch batch(std::span<const int64_t> indices) const override {
    ++made;
    if (slow && !indices.empty()) {
      std::this_thread::sleep_for(std::chrono::microseconds(indices[0] * 37 % 500));
    }
    if (std::ranges::find(indices, fails_at) != indices.end()) throw IoError("sample is damaged");
    const Tensor numbers =
        from_vector(Indices(indices.begin(), indices.end()), {std::ssize(indices)});
    return {numbers, numbers};
  }

  mutable std::atomic<int> made{0};
  bool slow = false;
  int64_t fails_at = -1;

 private:
  int64_t size_;
};

static_assert(std::input_iterator<Epoch::Iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, Epoch::Iterator>);

std::vector<Indices> walk(Epoch epoch) {
  std::vector<Indices> batches;
  for (Batch& batch : epoch) batches.push_back(batch.labels.to_vector<int64_t>());
  return batches;
}

Indices flat(const std::vector<Indices>& batches) {
  Indices all;
  for (const Indices& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace

TEST_CASE("an epoch in order") {
  const NumberDataset set(7);
  const DataLoader loader(set, {.batch = 3});
  CHECK(loader.steps_per_epoch() == 3);
  CHECK(loader.samples_per_epoch() == 7);
  CHECK(walk(loader.epoch(0)) == std::vector<Indices>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(walk(loader.epoch(5)) == walk(loader.epoch(0)));
}

TEST_CASE("all ranks take the same number of batches, and share the samples") {
  const NumberDataset set(19);
  for (int64_t ranks : {1, 2, 3, 4}) {
    Indices all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const DataLoader loader(
          set, {.batch = 8, .accumulate = 2, .shuffle = true, .rank = rank, .ranks = ranks});
      const auto batches = walk(loader.epoch(2));
      CHECK(batches.size() == 6);
      CHECK(batches.back().empty());  // the last step has 3 samples of 8
      for (int64_t number : flat(batches)) all.push_back(number);
    }
    std::ranges::sort(all);
    CHECK(all == flat(walk(DataLoader(set, {.batch = 1}).epoch(0))));
  }
}

TEST_CASE("a step holds the same samples on any number of ranks") {
  const NumberDataset set(50);
  const auto steps = [&](int64_t ranks) {
    std::vector<Indices> of_step(4);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const DataLoader loader(set, {.batch = 16, .shuffle = true, .rank = rank, .ranks = ranks});
      const auto batches = walk(loader.epoch(1));
      for (size_t step = 0; step < 4; ++step) {
        of_step[step].insert(of_step[step].end(), batches[step].begin(), batches[step].end());
        std::ranges::sort(of_step[step]);
      }
    }
    return of_step;
  };
  CHECK(steps(1) == steps(2));
  CHECK(steps(1) == steps(3));
  CHECK(steps(1) == steps(4));
}

TEST_CASE("virtual shards hold the same samples on any number of ranks") {
  const NumberDataset set(21);  // the last step has 5 samples for 4 shards
  const auto shards_on = [&](int64_t ranks) {
    std::vector<std::vector<Indices>> of_rank;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const DataLoader loader(
          set, {.batch = 8, .shuffle = true, .rank = rank, .ranks = ranks, .virtual_shards = 4});
      CHECK(loader.batches_per_step() == 4 / ranks);
      CHECK(loader.steps_per_epoch() == 3);
      of_rank.push_back(walk(loader.epoch(2, 1)));
    }
    std::vector<Indices> all;  // step by step, rank by rank
    for (int64_t step = 0; step < 2; ++step) {
      for (const auto& batches : of_rank) {
        for (int64_t i = 0; i < 4 / ranks; ++i) all.push_back(batches[step * (4 / ranks) + i]);
      }
    }
    return all;
  };
  const auto alone = shards_on(1);
  REQUIRE(alone.size() == 8);
  for (int shard = 0; shard < 4; ++shard) {
    CHECK(alone[shard].size() == 2);
    CHECK(alone[4 + shard].size() == (shard == 0 ? 2 : 1));
  }
  CHECK(shards_on(2) == alone);
  CHECK(shards_on(4) == alone);
}

TEST_CASE("threads change nothing but the time") {
  NumberDataset set(200);
  const auto with = [&](int threads, int prefetch) {
    return walk(DataLoader(set, {.batch = 6,
                                 .accumulate = 2,
                                 .shuffle = true,
                                 .seed = 3,
                                 .prefetch_threads = threads,
                                 .prefetch = prefetch})
                    .epoch(4));
  };
  const auto expected = with(0, 1);
  CHECK(flat(expected).size() == 200);
  set.slow = true;
  for (int threads : {1, 2, 5}) {
    for (int prefetch : {1, 3, 100}) CHECK(with(threads, prefetch) == expected);
  }
}

TEST_CASE("epochs differ when shuffled, and one may start in the middle") {
  const NumberDataset set(30);
  const DataLoader loader(set, {.batch = 8, .accumulate = 2, .shuffle = true});
  auto whole = walk(loader.epoch(0));
  CHECK(whole != walk(loader.epoch(1)));
  CHECK(walk(loader.epoch(0)) == whole);
  whole.erase(whole.begin(), whole.begin() + 4);
  CHECK(walk(loader.epoch(0, 2)) == whole);
  CHECK(walk(loader.epoch(0, 4)).empty());
  const Progress progress = loader.progress_after(30 + 16);
  CHECK(progress.epoch == 1);
  CHECK(progress.step == 2);
}

TEST_CASE("several epochs side by side") {
  const NumberDataset set(40);
  const DataLoader loader(set, {.batch = 4, .shuffle = true, .prefetch_threads = 2});
  const auto first = walk(loader.epoch(0)), second = walk(loader.epoch(1));
  Epoch a = loader.epoch(0), b = loader.epoch(1);
  Batch batch;
  for (size_t i = 0; i < 10; ++i) {
    REQUIRE(a.next(batch));
    CHECK(batch.labels.to_vector<int64_t>() == first[i]);
    REQUIRE(b.next(batch));
    CHECK(batch.labels.to_vector<int64_t>() == second[i]);
  }
  CHECK(!a.next(batch));
  CHECK(!a.next(batch));
  Epoch moved = std::move(b);
  CHECK(!moved.next(batch));
}

TEST_CASE("leaving early stops the threads, and no more is prepared than allowed") {
  const NumberDataset set(1000);
  for (int threads : {0, 1, 3}) {
    set.made = 0;
    const DataLoader loader(set, {.batch = 1, .prefetch_threads = threads, .prefetch = 4});
    int seen = 0;
    for (Batch& batch : loader.epoch(0)) {
      CHECK(batch.size() == 1);
      if (++seen == 5) break;
    }
    CHECK(set.made >= 5);
    CHECK(set.made <= 5 + (threads ? 4 : 0));
    { const Epoch unused = loader.epoch(0); }
  }
}

TEST_CASE("threads prepare ahead without being asked") {
  const NumberDataset set(100);
  const DataLoader loader(set, {.batch = 1, .prefetch_threads = 2, .prefetch = 7});
  const Epoch epoch = loader.epoch(0);
  for (int wait = 0; wait < 5000 && set.made < 7; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(set.made == 7);
}

TEST_CASE("what the data set throws arrives at its batch") {
  NumberDataset set(20);
  set.fails_at = 9;
  for (int threads : {0, 1, 3}) {
    Epoch epoch = DataLoader(set, {.batch = 2, .prefetch_threads = threads}).epoch(0);
    Batch batch;
    for (int i = 0; i < 4; ++i) CHECK(epoch.next(batch));
    CHECK_THROWS_WITH_AS(epoch.next(batch), "sample is damaged", IoError);
    CHECK(epoch.next(batch));
    CHECK(batch.labels.to_vector<int64_t>() == Indices{10, 11});
  }
}

TEST_CASE("an empty data set has no steps") {
  const NumberDataset set(0);
  const DataLoader loader(set, {.batch = 4, .shuffle = true});
  CHECK(loader.steps_per_epoch() == 0);
  CHECK(walk(loader.epoch(0)).empty());
}

TEST_CASE("options that cannot be") {
  const NumberDataset set(10);
  const auto refused = [&](LoaderOptions options) {
    CHECK_THROWS_AS(DataLoader(set, options), ValueError);
  };
  refused({.batch = 0});
  refused({.batch = 4, .accumulate = 3});
  refused({.ranks = 0});
  refused({.rank = 2, .ranks = 2});
  refused({.rank = -1});
  refused({.prefetch_threads = -1});
  refused({.prefetch = 0});
  refused({.ranks = 2, .virtual_shards = 3});
  refused({.ranks = 0, .virtual_shards = 4});
  refused({.virtual_shards = -2});
  const DataLoader loader(set, {.batch = 4});
  CHECK_THROWS_AS(loader.epoch(-1), ValueError);
  CHECK_THROWS_AS(loader.epoch(0, -1), ValueError);
  CHECK_THROWS_WITH_AS(loader.epoch(0, 4), doctest::Contains("must be in [0, 3], got 4"),
                       ValueError);
}
