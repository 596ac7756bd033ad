#include "data/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "data/loader.h"

using namespace capstan;
using namespace capstan::data;

namespace {

using Indices = std::vector<int64_t>;

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

/// `count` samples that are their own labels.
TensorDataset counting(int64_t count) {
  const Tensor numbers = arange(count);
  return TensorDataset(numbers, numbers);
}

Indices samples_of(Epoch epoch) {
  Indices all;
  for (Batch& batch : epoch) {
    for (int64_t label : batch.labels.to_vector<int64_t>()) all.push_back(label);
  }
  return all;
}

}  // namespace

TEST_CASE("a subset, as listed and shuffled") {
  CHECK(subset_order({7, 3, 5}).of(4) == Indices{7, 3, 5});
  Indices indices(100);
  for (int64_t i = 0; i < 100; ++i) indices[i] = 2 * i;
  const Order order = subset_order(indices, true, 1);
  CHECK(order.samples == 100);
  CHECK(order.of(0) == order.of(0));
  CHECK(order.of(0) != order.of(1));
  CHECK(order.of(0) != subset_order(indices, true, 2).of(0));
  CHECK(sorted(order.of(3)) == indices);
  CHECK(subset_order({}).of(0).empty());
  CHECK_THROWS_AS(order.of(-1), ValueError);
}

TEST_CASE("draws follow the weights, and never have a weight of 0") {
  const std::vector<double> weights{0, 1, 0, 3, 6, 0};
  const Order order = weighted_order(weights, 30'000, 5);
  std::vector<double> counts(6);
  for (int64_t index : order.of(0)) ++counts[index];
  for (size_t i = 0; i < 6; ++i) {  // five deviations of a binomial distribution
    const double p = weights[i] / 10;
    CHECK(std::abs(counts[i] - 30'000 * p) <= 5 * std::sqrt(30'000 * p * (1 - p)));
  }
  CHECK(order.of(0) != order.of(1));
  CHECK(weighted_order({}, 0).of(0).empty());
}

TEST_CASE("without repeats: each once, the first by its weight, the second among the others") {
  const Order all = weighted_order_without_repeats({1, 0, 2, 5}, 3);
  int first = 0, second = 0, epochs = 20'000;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Indices order = all.of(epoch);
    REQUIRE(sorted(order) == Indices{0, 2, 3});
    first += order[0] == 3;
    second += order[0] == 3 && order[1] == 2;
  }
  const auto near = [&](int count, double p) {
    return std::abs(count - epochs * p) <= 5 * std::sqrt(epochs * p * (1 - p));
  };
  CHECK(near(first, 5.0 / 8));
  CHECK(near(second, 5.0 / 8 * 2 / 3));
}

TEST_CASE("weights and draws that are not right") {
  CHECK_THROWS_WITH_AS(weighted_order({1, -1}, 1), doctest::Contains("weight 1 is -1"), ValueError);
  CHECK_THROWS_AS(weighted_order({NAN}, 1), ValueError);
  CHECK_THROWS_AS(weighted_order({INFINITY}, 1), ValueError);
  CHECK_THROWS_AS(weighted_order({1e308, 1e308}, 1), ValueError);
  CHECK_THROWS_AS(weighted_order({0, 0}, 1), ValueError);
  CHECK_THROWS_AS(weighted_order({1}, -1), ValueError);
  CHECK_THROWS_WITH_AS(weighted_order_without_repeats({1, 0, 1}, 3),
                       doctest::Contains("cannot draw 3 of 3"), ValueError);
  CHECK_THROWS_AS(bucketed_order({1}, 0), ValueError);
}

TEST_CASE("batches of similar lengths hold every sample once") {
  Indices lengths;
  for (int64_t i = 0; i < 1003; ++i) lengths.push_back(i * 7919 % 500);
  const Order order = bucketed_order(lengths, 10, 3);
  const Indices indices = order.of(0);
  CHECK(sorted(indices) == sorted(subset_order(indices).of(0)));
  CHECK(std::set<int64_t>(indices.begin(), indices.end()).size() == 1003);
  int64_t spread = 0, steps_up = 0;
  for (size_t begin = 0; begin + 10 <= 1000; begin += 10) {
    const auto [least, most] =
        std::minmax_element(indices.begin() + begin, indices.begin() + begin + 10,
                            [&](int64_t a, int64_t b) { return lengths[a] < lengths[b]; });
    spread += lengths[*most] - lengths[*least];
    steps_up += begin > 0 && lengths[indices[begin]] >= lengths[indices[begin - 1]];
  }
  CHECK(spread / 100 <= 6);  // sorted, a batch spans 5 lengths; unsorted, 400
  CHECK(steps_up > 30);      // batches themselves are in no order
  CHECK(steps_up < 70);
  CHECK(order.of(0) != order.of(1));
  CHECK(bucketed_order({5, 4}, 10).of(0).size() == 2);
}

TEST_CASE("the loader deals an order as any epoch, and goes on inside it") {
  const TensorDataset set = counting(10);
  const Order orders[] = {subset_order({9, 1, 8, 2, 7, 3, 6}, true), weighted_order({1, 2, 3}, 25),
                          bucketed_order(Indices(10, 1), 3)};
  for (const Order& order : orders) {
    const DataLoader whole(set, {.batch = 3, .order = order});
    CHECK(whole.samples_per_epoch() == order.samples);
    CHECK(samples_of(whole.epoch(1)) == order.of(1));
    const int64_t consumed = order.samples + 6;  // the whole epoch 0, two steps of epoch 1
    const Progress place = whole.progress_after(consumed);
    CHECK(place.epoch == 1);
    CHECK(place.step == 2);
    const Indices all = order.of(1);
    CHECK(samples_of(whole.epoch(place.epoch, place.step)) == Indices(all.begin() + 6, all.end()));
    Indices of_ranks;
    for (int64_t rank = 0; rank < 2; ++rank) {
      const DataLoader part(set, {.batch = 3, .rank = rank, .ranks = 2, .order = order});
      for (int64_t index : samples_of(part.epoch(1))) of_ranks.push_back(index);
    }
    CHECK(sorted(of_ranks) == sorted(all));
  }
}

TEST_CASE("orders that the loader refuses") {
  const TensorDataset set = counting(3);
  CHECK_THROWS_WITH_AS(DataLoader(set, {.shuffle = true, .order = subset_order({1})}),
                       doctest::Contains("set `order` or `shuffle`"), ValueError);
  const Order liar{2, [](int64_t) { return Indices{0}; }};
  CHECK_THROWS_WITH_AS(DataLoader(set, {.order = liar}).epoch(0),
                       doctest::Contains("must have 2 samples, got 1"), ValueError);
  const DataLoader outside(set, {.order = subset_order({3})});
  CHECK_THROWS_WITH_AS(samples_of(outside.epoch(0)), doctest::Contains("index 3 is out of range"),
                       ValueError);
}
