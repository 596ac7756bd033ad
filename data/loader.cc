// DataLoader and its prefetching.
//
// The batches of an epoch are numbered. A ring of `prefetch` slots holds those that are ready:
// batch k uses slot k mod prefetch. A thread takes the next number as soon as its slot has been
// emptied, makes that batch without holding the lock, and puts it there; the consumer waits for the
// slots in order. So there are never more than `prefetch` batches, and their order is that of their
// numbers.
#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "core/raise.h"

namespace capstan::data {
namespace {

std::vector<int64_t> order_of(const LoaderOptions& options, const Deal& deal, int64_t epoch) {
  if (!options.order.of) return epoch_order(deal.samples, options.shuffle, options.seed, epoch);
  auto order = options.order.of(epoch);
  if (std::ssize(order) != deal.samples) {
    raise<ValueError>("[DataLoader] the order of epoch {} must have {} samples, got {}", epoch,
                      deal.samples, order.size());
  }
  return order;
}

/// How often each sample of an order came before in it; nothing if there is no need to know.
std::vector<int64_t> repeats_in(const std::vector<int64_t>& order, const LoaderOptions& options) {
  std::vector<int64_t> repeats;
  if (!options.transform || !options.order.of) return repeats;
  std::unordered_map<int64_t, int64_t> seen;
  for (int64_t index : order) repeats.push_back(seen[index]++);
  return repeats;
}

}  // namespace

class Epoch::Source {
 public:
  Source(const Dataset& dataset, const LoaderOptions& options, const Deal& deal, int64_t epoch,
         int64_t first_step)
      : dataset_(dataset),
        deal_(deal),
        rank_(options.rank),
        shards_(options.virtual_shards),
        batches_per_step_(options.batches_per_step()),
        seed_(options.seed),
        epoch_(epoch),
        transform_(options.transform),
        order_(order_of(options, deal, epoch)),
        repeats_(repeats_in(order_, options)),
        count_(steps_per_epoch(deal) * batches_per_step_),
        to_make_(first_step * batches_per_step_),
        to_give_(to_make_) {
    if (options.prefetch_threads == 0) return;
    slots_.resize(static_cast<size_t>(std::min<int64_t>(options.prefetch, count_ - to_give_)));
    const size_t threads = std::min<size_t>(options.prefetch_threads, slots_.size());
    for (size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this](std::stop_token stop) { prefetch(stop); });
    }
  }

  bool next(Batch& out) {
    if (to_give_ == count_) return false;
    if (threads_.empty()) {
      out = make(to_give_++);
      return true;
    }
    Slot slot = take();
    if (slot.error) std::rethrow_exception(slot.error);
    out = std::move(*slot.batch);
    return true;
  }

 private:
  /// Empty, a batch, or what was thrown instead of one.
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool ready() const { return batch || error; }
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  Batch make(int64_t number) const {
    const int64_t step = number / batches_per_step_, part = number % batches_per_step_;
    auto indices = shards_ > 0 ? positions(deal_, step, 0, rank_ * batches_per_step_ + part)
                               : positions(deal_, step, part, rank_);
    std::vector<Generator> generators;
    for (int64_t& index : indices) {
      const auto position = static_cast<size_t>(index);
      index = order_[position];
      if (!transform_) continue;
      const int64_t repeat = repeats_.empty() ? 0 : repeats_[position];
      generators.push_back(sample_generator(seed_, epoch_, index, repeat));
    }
    Batch batch = dataset_.batch(indices);
    if (transform_) transform_(batch, generators);
    return batch;
  }

  Slot take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot_of(to_give_).ready(); });
    Slot slot = std::exchange(slot_of(to_give_++), {});
    changed_.notify_all();
    return slot;
  }

  void prefetch(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto may_make = [&] {
        return to_make_ == count_ || to_make_ < to_give_ + std::ssize(slots_);
      };
      if (!changed_.wait(lock, stop, may_make) || to_make_ == count_) return;
      const int64_t number = to_make_++;
      lock.unlock();
      Slot made;
      try {
        made.batch = make(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      slot_of(number) = std::move(made);
      changed_.notify_all();
    }
  }

  const Dataset& dataset_;
  const Deal deal_;
  const int64_t rank_, shards_, batches_per_step_;
  const uint64_t seed_;
  const int64_t epoch_;
  const Transform transform_;
  const std::vector<int64_t> order_;
  const std::vector<int64_t> repeats_;
  const int64_t count_;  // batches of the whole epoch

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  int64_t to_make_, to_give_;  // numbers of the next batches
  std::vector<Slot> slots_;
  std::vector<std::jthread> threads_;  // last, so that they stop before the rest goes
};

Epoch::Epoch(const Dataset& dataset, const LoaderOptions& options, const Deal& deal, int64_t epoch,
             int64_t first_step)
    : source_(std::make_unique<Source>(dataset, options, deal, epoch, first_step)) {}
Epoch::Epoch(Epoch&&) noexcept = default;
Epoch& Epoch::operator=(Epoch&&) noexcept = default;
Epoch::~Epoch() = default;

bool Epoch::next(Batch& out) { return source_->next(out); }

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options)
    : dataset_(dataset),
      options_(options),
      deal_{.samples = options.order.of ? options.order.samples : dataset.size(),
            .batch = options.batch,
            .accumulate = options.virtual_shards > 0 ? 1 : options.accumulate,
            .ranks = options.virtual_shards > 0 ? options.virtual_shards : options.ranks,
            .tail = options.tail} {
  check(deal_);
  if (options.rank < 0 || options.rank >= options.ranks) {
    raise<ValueError>("[DataLoader] rank must be in [0, {}), got {}", options.ranks, options.rank);
  }
  if (options.virtual_shards < 0 || options.virtual_shards % options.ranks != 0) {
    raise<ValueError>("[DataLoader] virtual shards must be 0 or a multiple of the {} ranks, got {}",
                      options.ranks, options.virtual_shards);
  }
  if (options.order.of && options.shuffle) {
    raise<ValueError>("[DataLoader] an order cannot be shuffled; set `order` or `shuffle`");
  }
  if (options.prefetch_threads < 0 || options.prefetch < 1) {
    raise<ValueError>(
        "[DataLoader] prefetch_threads must be 0 or more and prefetch 1 or more, got {} and {}",
        options.prefetch_threads, options.prefetch);
  }
}

Epoch DataLoader::epoch(int64_t epoch, int64_t first_step) const {
  if (first_step < 0 || first_step > steps_per_epoch()) {
    raise<ValueError>("[DataLoader] first step must be in [0, {}], got {}", steps_per_epoch(),
                      first_step);
  }
  return Epoch(dataset_, options_, deal_, epoch, first_step);
}

}  // namespace capstan::data
