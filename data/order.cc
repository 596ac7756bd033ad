#include "data/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/raise.h"
#include "core/random.h"
#include "data/sampler.h"

namespace capstan::data {
namespace {

constexpr uint64_t kDraws = 0x6472617773;  // "draws": a stream apart from other uses
constexpr int64_t kBatchesSorted = 100;

Generator epoch_generator(uint64_t seed, int64_t epoch) {
  if (epoch < 0) raise<ValueError>("[order] epoch must be 0 or more, got {}", epoch);
  return Generator(seed).fork(kDraws).fork(static_cast<uint64_t>(epoch));
}

/// In (0, 1].
double unit(Generator& generator) {
  return static_cast<double>((generator.next() >> 11) + 1) * 0x1p-53;
}

void check_weights(const char* operation, const std::vector<double>& weights, int64_t draws,
                   int64_t most) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      raise<ValueError>("[{}] weights must be finite and 0 or more, weight {} is {}", operation, i,
                        weights[i]);
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (draws < 0 || draws > most || !std::isfinite(sum) || (draws > 0 && sum == 0)) {
    raise<ValueError>("[{}] cannot draw {} of {} samples whose weights have the sum {}", operation,
                      draws, weights.size(), sum);
  }
}

}  // namespace

Order subset_order(std::vector<int64_t> indices, bool shuffle, uint64_t seed) {
  const int64_t count = std::ssize(indices);
  return {count, [=, indices = std::move(indices)](int64_t epoch) {
            std::vector<int64_t> order = epoch_order(count, shuffle, seed, epoch);
            for (int64_t& index : order) index = indices[static_cast<size_t>(index)];
            return order;
          }};
}

Order weighted_order(std::vector<double> weights, int64_t draws, uint64_t seed) {
  check_weights("weighted_order", weights, draws, INT64_MAX);
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  return {draws, [=](int64_t epoch) {
            Generator generator = epoch_generator(seed, epoch);
            std::vector<int64_t> order;
            for (int64_t i = 0; i < draws; ++i) {  // the first sum not below: never a weight of 0
              const double at = unit(generator) * sums.back();
              order.push_back(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin());
            }
            return order;
          }};
}

Order weighted_order_without_repeats(std::vector<double> weights, int64_t draws, uint64_t seed) {
  const int64_t possible =
      std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; });
  check_weights("weighted_order_without_repeats", weights, draws, possible);
  return {draws, [=, weights = std::move(weights)](int64_t epoch) {
            Generator generator = epoch_generator(seed, epoch);
            std::vector<double> keys;  // a key grows with the weight; infinite, so last, for 0
            for (double weight : weights) keys.push_back(-std::log(unit(generator)) / weight);
            for (size_t i = 0; i < keys.size(); ++i) {
              if (weights[i] == 0) keys[i] = INFINITY;
            }
            std::vector<int64_t> order = epoch_order(std::ssize(keys), false, 0, 0);
            std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
              return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
            });
            order.resize(static_cast<size_t>(draws));
            return order;
          }};
}

Order bucketed_order(std::vector<int64_t> lengths, int64_t batch, uint64_t seed) {
  if (batch < 1) raise<ValueError>("[bucketed_order] batch must be 1 or more, got {}", batch);
  const int64_t count = std::ssize(lengths);
  return {count, [=, lengths = std::move(lengths)](int64_t epoch) {
            std::vector<int64_t> mixed = epoch_order(count, true, seed, epoch);
            const int64_t whole = count / batch;
            for (int64_t begin = 0; begin < whole; begin += kBatchesSorted) {
              const int64_t end = std::min(begin + kBatchesSorted, whole);
              std::stable_sort(mixed.begin() + begin * batch, mixed.begin() + end * batch,
                               [&](int64_t a, int64_t b) {
                                 return lengths[static_cast<size_t>(a)] <
                                        lengths[static_cast<size_t>(b)];
                               });
            }
            Generator generator = epoch_generator(seed, epoch);
            std::vector<int64_t> order;
            for (int64_t number : random_permutation(whole, generator)) {
              const auto begin = mixed.begin() + number * batch;
              order.insert(order.end(), begin, begin + batch);
            }
            order.insert(order.end(), mixed.begin() + whole * batch, mixed.end());
            return order;
          }};
}

}  // namespace capstan::data
