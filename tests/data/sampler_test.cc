#include "data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"

using namespace capstan;
using namespace capstan::data;

namespace {

using Indices = std::vector<int64_t>;

/// All that a rank gets in an epoch, in order.
Indices positions_of_rank(const Deal& deal, int64_t rank) {
  Indices all;
  for (int64_t step = 0; step < steps_per_epoch(deal); ++step) {
    for (int64_t part = 0; part < deal.accumulate; ++part) {
      for (int64_t position : positions(deal, step, part, rank)) all.push_back(position);
    }
  }
  return all;
}

/// 0, 1, ..., count - 1.
Indices counting(int64_t count) {
  Indices all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

// The values of the padded and dropped tails are PyTorch's.
TEST_CASE("ten samples on four ranks") {
  const auto dealt = [](Tail tail) {
    std::vector<Indices> ranks;
    for (int64_t rank = 0; rank < 4; ++rank) {
      ranks.push_back(
          positions_of_rank({.samples = 10, .batch = 4, .ranks = 4, .tail = tail}, rank));
    }
    return ranks;
  };
  CHECK(dealt(Tail::exact) == std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}});
  CHECK(dealt(Tail::pad) == std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
  CHECK(dealt(Tail::drop) == std::vector<Indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE("a step holds the next batch of positions, dealt in turn") {
  const Deal deal{.samples = 17, .batch = 8, .accumulate = 2, .ranks = 3};
  CHECK(steps_per_epoch(deal) == 3);
  CHECK(positions(deal, 0, 0, 0) == Indices{0, 3});
  CHECK(positions(deal, 0, 0, 1) == Indices{1});
  CHECK(positions(deal, 0, 0, 2) == Indices{2});
  CHECK(positions(deal, 1, 1, 0) == Indices{12, 15});
  CHECK(positions(deal, 2, 0, 0) == Indices{16});
  CHECK(positions(deal, 2, 0, 1).empty());
  CHECK(positions(deal, 2, 1, 0).empty());
}

TEST_CASE("ranks share each step without overlap, and an exact epoch is every sample once") {
  for (int64_t samples : {0, 1, 2, 5, 12, 13, 100}) {
    for (int64_t batch : {1, 2, 6, 12, 128}) {
      for (int64_t ranks : {1, 2, 3, 4}) {
        for (int64_t accumulate : {1, 2, 6}) {
          const Deal deal{samples, batch, accumulate, ranks};
          if (batch % accumulate != 0) continue;
          INFO(samples << " samples, batch " << batch << ", " << ranks << " ranks");
          Indices epoch;
          for (int64_t step = 0; step < steps_per_epoch(deal); ++step) {
            Indices of_step;
            for (int64_t part = 0; part < accumulate; ++part) {
              for (int64_t rank = 0; rank < ranks; ++rank) {
                for (int64_t p : positions(deal, step, part, rank)) of_step.push_back(p);
              }
            }
            std::ranges::sort(of_step);
            epoch.insert(epoch.end(), of_step.begin(), of_step.end());
            CHECK(std::ssize(of_step) == std::min(batch, samples - step * batch));
          }
          CHECK(epoch == counting(samples));
          CHECK(samples_per_epoch(deal) == samples);
        }
      }
    }
  }
}

TEST_CASE("padded and dropped epochs give whole steps only") {
  for (int64_t samples : {0, 1, 3, 12, 13}) {
    for (Tail tail : {Tail::pad, Tail::drop}) {
      const Deal deal{.samples = samples, .batch = 6, .accumulate = 3, .ranks = 2, .tail = tail};
      CAPTURE(samples);
      for (int64_t step = 0; step < steps_per_epoch(deal); ++step) {
        for (int64_t part = 0; part < 3; ++part) {
          for (int64_t rank = 0; rank < 2; ++rank) {
            const Indices got = positions(deal, step, part, rank);
            CHECK(got == Indices{(step * 6 + part * 2 + rank) % samples});
          }
        }
      }
      const int64_t whole = tail == Tail::pad ? (samples + 5) / 6 : samples / 6;
      CHECK(steps_per_epoch(deal) == whole);
      CHECK(samples_per_epoch(deal) == whole * 6);
    }
  }
}

TEST_CASE("the order of an epoch") {
  CHECK(epoch_order(4, false, 7, 3) == Indices{0, 1, 2, 3});
  CHECK(epoch_order(0, true, 0, 0).empty());
  const Indices first = epoch_order(1000, true, 7, 0);
  CHECK(first == epoch_order(1000, true, 7, 0));
  CHECK(first != counting(1000));
  CHECK(first != epoch_order(1000, true, 7, 1));
  CHECK(first != epoch_order(1000, true, 8, 0));
  CHECK(epoch_order(1000, true, 7, 1) != epoch_order(1000, true, 8, 0));
  Indices sorted = first;
  std::ranges::sort(sorted);
  CHECK(sorted == counting(1000));
}

// A run must go on after an update of Capstan as it would have before, so the order is a format.
TEST_CASE("the order of an epoch never changes") {
  CHECK(epoch_order(8, true, 0, 0) == Indices{1, 3, 2, 6, 0, 7, 4, 5});
  CHECK(epoch_order(8, true, 42, 3) == Indices{1, 4, 3, 6, 5, 2, 0, 7});
}

TEST_CASE("progress after some samples") {
  const auto at = [](const Deal& deal, int64_t consumed) {
    const Progress progress = progress_after(deal, consumed);
    return std::pair(progress.epoch, progress.step);
  };
  const Deal deal{.samples = 10, .batch = 4};
  CHECK(at(deal, 0) == std::pair<int64_t, int64_t>(0, 0));
  CHECK(at(deal, 8) == std::pair<int64_t, int64_t>(0, 2));
  CHECK(at(deal, 10) == std::pair<int64_t, int64_t>(1, 0));
  CHECK(at(deal, 24) == std::pair<int64_t, int64_t>(2, 1));
  CHECK(at({.samples = 10, .batch = 4, .tail = Tail::drop}, 12) ==
        std::pair<int64_t, int64_t>(1, 1));
  CHECK(at({.samples = 10, .batch = 4, .tail = Tail::pad}, 24) ==
        std::pair<int64_t, int64_t>(2, 0));
  CHECK(at({.samples = 0}, 0) == std::pair<int64_t, int64_t>(0, 0));
  CHECK_THROWS_WITH_AS(progress_after(deal, 12),
                       doctest::Contains("12 samples consumed are 2 into"), ValueError);
  CHECK_THROWS_AS(progress_after(deal, -1), ValueError);
  CHECK_THROWS_AS(progress_after({.samples = 0}, 5), ValueError);
}

TEST_CASE("deals that cannot be") {
  CHECK_NOTHROW(check({}));
  CHECK_THROWS_AS(check({.samples = -1}), ValueError);
  CHECK_THROWS_AS(check({.batch = 0}), ValueError);
  CHECK_THROWS_AS(check({.accumulate = 0}), ValueError);
  CHECK_THROWS_AS(check({.ranks = 0}), ValueError);
  CHECK_THROWS_WITH_AS(
      check({.batch = 8, .accumulate = 3}),
      "[sampler] a batch of 8 cannot be cut into 3 equal parts; choose a multiple of 3",
      ValueError);
  CHECK_THROWS_AS(epoch_order(4, true, 0, -1), ValueError);
}
