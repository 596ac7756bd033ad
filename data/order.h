// Defines Order, in which an epoch visits a data set if not plainly or shuffled, and the usual
// ones: a subset, by weights, by lengths.
//
//   data::DataLoader loader(train, {.batch = 64, .order = data::weighted_order(weights, 10'000)});
//
// An order depends on the epoch and nothing else, so every rank knows it, and a place in it is two
// numbers, as in any epoch (data/sampler.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace capstan::data {

struct Order {
  int64_t samples = 0;  // of every epoch
  /// The indices of their samples, in order. An index may occur several times or never.
  std::function<std::vector<int64_t>(int64_t epoch)> of;
};

/// Some samples, as listed or shuffled anew each epoch.
Order subset_order(std::vector<int64_t> indices, bool shuffle = false, uint64_t seed = 0);

/// `draws` samples, each independent of the others: sample i with probability weights[i] / their
/// sum. Throws ValueError unless weights are finite, 0 or more, and not all 0.
Order weighted_order(std::vector<double> weights, int64_t draws, uint64_t seed = 0);

/// `draws` different samples, one after the other, each with a probability in proportion to its
/// weight among those that are left (Efraimidis and Spirakis: "Weighted random sampling with a
/// reservoir", 2006). Throws ValueError as above, or for more draws than weights above 0.
Order weighted_order_without_repeats(std::vector<double> weights, int64_t draws, uint64_t seed = 0);

/// Every sample once, such that the samples of a batch are of similar lengths, and padding wastes
/// little: the epoch is shuffled, every hundred batches are sorted by length, and the batches are
/// shuffled (the last, if smaller, stays the last). `batch` must be the loader's.
Order bucketed_order(std::vector<int64_t> lengths, int64_t batch, uint64_t seed = 0);

}  // namespace capstan::data
