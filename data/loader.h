// Defines DataLoader, which walks a data set in batches, and Epoch, one such walk.
//
//   data::DataLoader loader(train, {.batch = 64, .shuffle = true, .rank = r, .ranks = n});
//   for (int64_t e = 0; e < epochs; ++e)
//     for (data::Batch& batch : loader.epoch(e)) ...
//
// Which samples come, and in which order, is settled in data/sampler.h and depends on nothing but
// the options and the epoch. Threads prepare batches ahead; they change when a batch is ready,
// never what is in it.
#pragma once

#include <iterator>
#include <memory>

#include "data/dataset.h"
#include "data/order.h"
#include "data/sampler.h"
#include "data/transform.h"

namespace capstan::data {

struct LoaderOptions {
  int64_t batch = 1;       // samples of a step, over all ranks
  int64_t accumulate = 1;  // batches that a rank gets for one step
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t ranks = 1;
  /// If not 0, a step is cut into so many virtual shards, instead of by accumulate and ranks: the
  /// same ones on any number of ranks that divides it. Sample i of a step is in shard i mod shards;
  /// a rank gets its shards, of which it has shards / ranks in a row, one batch each.
  int64_t virtual_shards = 0;
  Tail tail = Tail::exact;
  int prefetch_threads = 1;  // 0: batches are made when they are asked for
  int prefetch = 4;          // batches ready or being made at most
  Order order = {};          // instead of `shuffle`; without `of`, none
  Transform transform = {};  // of every batch; its random numbers follow from `seed`

  /// Batches that a rank gets for one step.
  int64_t batches_per_step() const {
    return virtual_shards > 0 ? virtual_shards / ranks : accumulate;
  }
};

/// One walk over one epoch, as a range that can be walked once. It owns its threads: leaving early
/// stops them, and several walks may go on side by side.
class Epoch {
 public:
  Epoch(const Dataset& dataset, const LoaderOptions& options, const Deal& deal, int64_t epoch,
        int64_t first_step);
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ~Epoch();

  /// Puts the next batch into `out`; false at the end of the epoch. An exception that the data set
  /// threw for that batch is thrown here.
  bool next(Batch& out);

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(Epoch& epoch) : epoch_(&epoch) { ++*this; }
    Batch& operator*() const { return epoch_->current_; }
    Batch* operator->() const { return &epoch_->current_; }
    Iterator& operator++() {
      if (!epoch_->next(epoch_->current_)) epoch_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return epoch_ == nullptr; }

   private:
    Epoch* epoch_;  // null at the end
  };
  /// Goes on where the walk stands.
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  class Source;
  std::unique_ptr<Source> source_;
  Batch current_;
};

class DataLoader {
 public:
  /// `dataset` must outlive the loader and its epochs. Throws ValueError for options that are out
  /// of range or exclude each other.
  DataLoader(const Dataset& dataset, LoaderOptions options);
  DataLoader(const Dataset&& dataset, LoaderOptions options) = delete;

  /// Steps of an epoch, the same on all ranks. A rank gets batches_per_step() batches for each, of
  /// which those of the last step may be empty.
  int64_t steps_per_epoch() const { return data::steps_per_epoch(deal_); }
  /// Batches that a rank gets for one step.
  int64_t batches_per_step() const { return options_.batches_per_step(); }
  /// Samples of an epoch over all ranks.
  int64_t samples_per_epoch() const { return data::samples_per_epoch(deal_); }
  /// Where training stands after `consumed` samples over all ranks; see sampler.h.
  Progress progress_after(int64_t consumed) const { return data::progress_after(deal_, consumed); }

  /// This rank's batches of one epoch, from `first_step` on. Throws ValueError for a negative epoch
  /// or a step outside [0, steps_per_epoch()].
  Epoch epoch(int64_t epoch, int64_t first_step = 0) const;

 private:
  const Dataset& dataset_;
  LoaderOptions options_;
  Deal deal_;
};

}  // namespace capstan::data
