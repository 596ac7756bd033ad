// Implements Reducer: placing, launching, the share, folding, finishing.
#include "distributed/reducer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <sstream>

#include "autograd/node.h"
#include "core/backend.h"
#include "core/raise.h"
#include "core/threads.h"
#include "distributed/comm/combine.h"

namespace capstan::distributed {

namespace {

/// Gives a parameter that the passes so far did not use a gradient of zeros.
void zero_if_missing(const Tensor& parameter) {
  if (parameter.has_grad()) return;
  const Tensor zero = zeros({}, {parameter.dtype(), parameter.device()});
  accumulator(parameter).set_grad(view_of(zero, zero.layout().expanded(parameter.shape())));
}

/// True if a sum over ranks may be rounded, or its samples miscounted, in the gradients' dtype.
bool in_half_precision(const NamedTensors& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& entry) {
    return item_size(entry.second.dtype()) < item_size(Dtype::float32);
  });
}

}  // namespace

int64_t shards_of_each_rank(int64_t shards, int ranks) {
  if (shards == 0) return 1;
  if (shards < ranks || !std::has_single_bit(static_cast<uint64_t>(shards)) ||
      !std::has_single_bit(static_cast<unsigned>(ranks))) {
    raise<ValueError>(
        "[reducer] virtual shards and ranks must be powers of two, and no rank without a shard; "
        "got {} shards on {} ranks",
        shards, ranks);
  }
  return shards / ranks;
}

Reducer::Reducer(NamedTensors parameters, Communicator& communicator, ReducerOptions options)
    : parameters_(std::move(parameters)),
      communicator_(communicator),
      options_(std::move(options)),
      local_shards_(shards_of_each_rank(options_.virtual_shards, communicator.size())),
      order_(options_.virtual_shards > 0 ? Order::tree : Order::any),
      share_ahead_(options_.hook || in_half_precision(parameters_)),
      share_apart_(share_ahead_ || options_.scatter) {
  if (parameters_.empty()) {
    raise<ValueError>(
        "[reducer] there is no parameter whose gradient the ranks share: the model has none that "
        "requires one, or all are excluded; without Ddp each rank trains its own");
  }
  if (options_.virtual_shards > 0 && (options_.hook || options_.predivide)) {
    raise<ValueError>(
        "[reducer] virtual shards make sums that do not depend on the ranks; a hook or a "
        "predivision rounds on each rank");
  }
  if (options_.predivide && !(*options_.predivide > 0 && std::isfinite(*options_.predivide))) {
    raise<ValueError>("[reducer] gradients can be predivided by a number above 0, got {}",
                      *options_.predivide);
  }
  std::vector<int> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (const std::vector<int>& known = options_.ready_order; !known.empty()) {
    if (!std::is_permutation(order.begin(), order.end(), known.begin(), known.end())) {
      raise<ValueError>("[reducer] the order must name each of the {} parameters once",
                        parameters_.size());
    }
    order = known;
  }
  place(order);
  if (!options_.scatter || !options_.scatter->release) return;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    hooks_.push_back(on_gradient(parameters_[p].second, [this, p](const Tensor&) {
      make_room(static_cast<int>(p));
      return Tensor();
    }));
  }
}

Reducer::~Reducer() {
  for (const auto& [_, parameter] : parameters_) {
    if (!parameter.requires_grad()) continue;  // frozen since
    if (options_.scatter) zero_grad(parameter);
    accumulator(parameter).unplace_grad();
  }
}

Reducer::Bucket Reducer::make_bucket(std::string tag, int64_t elements, bool carries_share,
                                     TensorOptions options) {
  Bucket bucket;
  bucket.tag = std::move(tag);
  bucket.elements = elements;
  const int64_t length = elements + (carries_share ? aligned(2, options.dtype) : 0);
  bucket.flat = options_.scatter ? zeros({length}, options)
                                 : communicator_.shared_zeros({length}, options, bucket.tag);
  for (int64_t pair = 2; pair <= local_shards_; pair *= 2) {
    bucket.subtrees.push_back(empty_like(bucket.flat));
  }
  if (carries_share) share_ = view_of(bucket.flat, {{2}, {1}, elements});
  return bucket;
}

// This rank's part of a tensor that is shared out.
Tensor Reducer::own_part(const Tensor& whole) const {
  const Communicator& ranks = *options_.scatter->ranks;
  const int64_t length = whole.numel() / ranks.size();
  return view_of(whole, {{length}, {1}, ranks.rank() * length});
}

void Reducer::make_part(Bucket& bucket) const {
  const Scatter& scatter = *options_.scatter;
  bucket.part = own_part(bucket.flat);
  if (!scatter.release && scatter.device == bucket.flat.device()) return;
  bucket.part = zeros(bucket.part.shape(), {bucket.flat.dtype(), scatter.device});
  if (scatter.release) bucket.flat.storage().release();
}

// Sees to it that a parameter's gradient has memory.
void Reducer::make_room(int parameter) {
  const Tensor& flat = buckets_[bucket_of_[parameter]].flat;
  if (flat.storage().data() || flat.numel() == 0) return;
  flat.storage().refill();
  fill_elements(flat, 0);
}

// Sees to it that a parameter has a gradient.
void Reducer::complete(int parameter) {
  make_room(parameter);
  zero_if_missing(parameters_[parameter].second);
}

// Gives each of the parameters its slice.
void Reducer::fill_bucket(Bucket& bucket, std::span<const int> parameters) {
  int64_t offset = 0;
  for (int p : parameters) {
    const auto& [name, parameter] = parameters_[p];
    Layout slice = Layout::dense(parameter.shape());
    slice.offset = offset;
    bucket.gradients.emplace_back(name, view_of(bucket.flat, slice));
    accumulator(parameter).place_grad(bucket.gradients.back().second);
    offset += aligned(parameter.numel(), parameter.dtype());
    bucket_of_[p] = bucket.number;
  }
}

void Reducer::place(std::span<const int> order) {
  if (options_.scatter) {
    plan_ = options_.scatter->plan;
  } else {
    std::vector<BucketItem> items;
    for (int p : order)
      items.push_back({parameters_[p].second.bytes(), parameters_[p].second.dtype()});
    plan_ = plan_buckets(items, options_.limits);
    for (std::vector<int>& members : plan_) {
      for (int& item : members) item = order[item];
    }
  }

  std::vector<Bucket> buckets;  // the old ones stay until the gradients have moved
  bucket_of_.assign(parameters_.size(), 0);
  for (const std::vector<int>& members : plan_) {
    const auto& [name, first] = parameters_[members[0]];
    int64_t length = 0;
    for (int p : members) length += aligned(parameters_[p].second.numel(), first.dtype());
    if (options_.scatter) {
      const int ranks = options_.scatter->ranks->size();
      length = aligned((length + ranks - 1) / ranks, first.dtype()) * ranks;
    }
    const size_t number = buckets.size();
    buckets.push_back(
        make_bucket(fmt::format("bucket {}: {}{}", number, name, members.size() > 1 ? "…" : ""),
                    length, number == 0 && !share_apart_, {first.dtype(), first.device()}));
    buckets.back().number = static_cast<int>(number);
    fill_bucket(buckets.back(), members);
    if (options_.scatter) make_part(buckets.back());
  }
  if (options_.hook) {
    options_.hook->prepare(std::vector<GradientBucket>(buckets.begin(), buckets.end()),
                           communicator_);
  }
  if (share_apart_) {
    const Tensor& first = parameters_[plan_[0][0]].second;
    // Where it is not divided by, in the dtype that it has in a bucket's tail: for the same bits.
    const Dtype dtype = share_ahead_ ? Dtype::float64 : first.dtype();
    buckets.push_back(make_bucket("weight and loss", 0, true, {dtype, first.device()}));
  }
  buckets_ = std::move(buckets);
}

void Reducer::forget_window() {
  shard_ = 0;
  earlier_ = {};
}

void Reducer::start(const Share& mine, bool closes) {
  mine_ = mine;
  closes_ = closes;
  divisor_ = options_.predivide.value_or(1);
  launched_ = 0;
  ready_order_.clear();
  for (size_t b = 0; b < plan_.size(); ++b) buckets_[b].missing = static_cast<int>(plan_[b].size());
  if (!share_apart_) return;
  write_share(mine_);
  Bucket& ahead = buckets_.back();
  add_subtrees(ahead);
  ahead.work = communicator_.all_reduce(ahead.flat, Reduce::sum, ahead.tag, order_);
}

void Reducer::mark_ready(int parameter) {
  complete(parameter);
  ready_order_.push_back(parameter);
  if (--buckets_[bucket_of_[parameter]].missing == 0) launch_ready_buckets();
}

void Reducer::launch_ready_buckets() {
  for (; launched_ < plan_.size() && buckets_[launched_].missing == 0; ++launched_) {
    if (launched_ == 0 && share_ahead_) learn_divisor();
    if (launched_ == 0 && !share_apart_) write_share(mine_);
    launch(buckets_[launched_]);
  }
}

// Divides by all of the weight at once where the share has gone ahead, unless the user or the tree
// of virtual shards has it otherwise.
void Reducer::learn_divisor() {
  meter_.wait(buckets_.back().work);
  const double weight = read_share().weight;
  if (!options_.predivide && options_.virtual_shards == 0 && weight > 0) divisor_ = weight;
}

void Reducer::launch(Bucket& bucket) {
  add_subtrees(bucket);
  if (options_.check_nan) nan_check_.look(bucket.gradients);
  if (divisor_ != 1) scale_elements(bucket.all(), 1 / divisor_);
  if (options_.scatter) return scatter(bucket);
  bucket.work = options_.hook
                    ? options_.hook->round(0, bucket, communicator_).value_or(Work())
                    : communicator_.all_reduce(bucket.flat, Reduce::sum, bucket.tag, order_);
}

void Reducer::scatter(Bucket& bucket) {
  // The one before has had the time of this one's backward: more under way would need more memory.
  if (bucket.number > 0) settle(buckets_[bucket.number - 1]);
  bucket.wire = bucket.flat;
  if (const auto dtype = options_.scatter->dtype; dtype && *dtype != bucket.flat.dtype()) {
    bucket.wire = empty(bucket.flat.shape(), {*dtype, bucket.flat.device()});
    copy_elements(bucket.flat, bucket.wire);
    if (options_.scatter->release) bucket.flat.storage().release();
  }
  bucket.work = options_.scatter->ranks->reduce_scatter(bucket.wire, own_part(bucket.wire),
                                                        Reduce::sum, bucket.tag, order_);
}

// Waits for a scattered sum and takes this rank's part of it; the rest is not needed any more.
void Reducer::settle(Bucket& bucket) {
  if (!bucket.wire.defined()) return;
  meter_.wait(bucket.work);
  const Tensor mine = own_part(bucket.wire);
  if (mine.address() != bucket.part.address()) take(mine, bucket.part);
  bucket.wire = Tensor();
  for (int p : plan_[bucket.number]) zero_grad(parameters_[p].second);
  if (options_.scatter->release) bucket.flat.storage().release();
  if (Communicator* const replicas = options_.scatter->replicas; replicas && closes_) {
    bucket.work = replicas->all_reduce(bucket.part, Reduce::sum, bucket.tag, order_);
  }
}

// Puts a sum into its place, to those of the window's earlier reductions. What was divided by the
// weight of its reduction is a mean, and so is what comes of it: of all that the window has so far.
void Reducer::take(const Tensor& sum, const Tensor& part) {
  if (earlier_.weight == 0) return copy_elements(sum, part);
  const Tensor more = empty(part.shape(), {part.dtype(), part.device()});
  copy_elements(sum, more);
  if (share_ahead_) {
    const double weight = read_share().weight, all = earlier_.weight + weight;
    scale_elements(more, weight / all);
    scale_elements(part, earlier_.weight / all);
  }
  backend(part).binary(Binary::add, part, more, part);
}

void Reducer::write_share(const Share& share) {
  fill_elements(view_of(share_, {{}, {}, share_.layout().offset}), share.weight);
  fill_elements(view_of(share_, {{}, {}, share_.layout().offset + 1}), share.loss);
}

Share Reducer::read_share() const {
  const std::vector<double> share = share_.to_vector<double>();
  return {.weight = share[0], .loss = share[1]};
}

// Adds the subtrees that end with the present shard: as many as a binary counter has carries.
void Reducer::add_subtrees(Bucket& bucket) {
  constexpr int64_t kBlock = 16'384;
  const int64_t item = item_size(bucket.flat.dtype());
  auto* sum = static_cast<std::byte*>(bucket.flat.address());
  for (int level = 0; shard_ >> level & 1; ++level) {
    const auto* left = static_cast<const std::byte*>(bucket.subtrees[level].address());
    parallel_for(bucket.flat.numel(), kBlock, [&](int64_t begin, int64_t end) {
      combine(Reduce::sum, bucket.flat.dtype(), left + begin * item, sum + begin * item,
              sum + begin * item, end - begin);
    });
  }
}

void Reducer::fold(const Share& shard) {
  write_share(shard);
  for (size_t p = 0; p < parameters_.size(); ++p) complete(static_cast<int>(p));
  for (Bucket& bucket : buckets_) {
    add_subtrees(bucket);
    copy_elements(bucket.flat, bucket.subtrees[std::countr_one(static_cast<uint64_t>(shard_))]);
  }
  ++shard_;
  for (const auto& [_, parameter] : parameters_) zero_grad(parameter);
  if (!options_.scatter || !options_.scatter->release) return;
  for (size_t b = 0; b < plan_.size(); ++b) buckets_[b].flat.storage().release();
}

// Waits for what was launched, then runs the later rounds of the hook, each for all buckets.
void Reducer::wait_for_all() {
  if (options_.scatter) {
    for (size_t b = 0; b < plan_.size(); ++b) settle(buckets_[b]);
  }
  std::vector<Bucket*> open;
  for (Bucket& bucket : buckets_) {
    meter_.wait(bucket.work);
    open.push_back(&bucket);
  }
  if (!options_.hook) return;
  open.pop_back();  // the share's, which is no hook's
  for (int round = 1; !open.empty(); ++round) {
    std::erase_if(open, [&](Bucket* bucket) {
      const std::optional<Work> work = options_.hook->round(round, *bucket, communicator_);
      if (work) bucket->work = *work;
      return !work;
    });
    for (const Bucket* bucket : open) meter_.wait(bucket->work);
  }
}

Share Reducer::finish() {
  if (launched_ < plan_.size()) {
    raise<GradientError>("[reducer] {} of {} buckets left: a parameter was not marked ready",
                         launched_, plan_.size());
  }
  wait_for_all();
  shard_ = 0;
  if (options_.check_nan) nan_check_.verdict(communicator_);
  const Share last = read_share(), all{earlier_.weight + last.weight, earlier_.loss + last.loss};
  if (!closes_) return earlier_ = all;
  // What is left to divide by: means have been divided by all of the weight.
  const bool are_means = earlier_.weight > 0 && share_ahead_;
  const double rest = all.weight > 0 ? (are_means ? 1 : divisor_ / all.weight) : 0;
  if (rest == 1) return all;
  for (size_t b = 0; b < plan_.size(); ++b) {
    scale_elements(options_.scatter ? buckets_[b].part : buckets_[b].all(), rest);
  }
  return all;
}

bool Reducer::replan(bool order_is_true) {
  std::string text;
  for (int p : ready_order_) text += order_is_true ? std::to_string(p) + " " : "";
  std::istringstream agreed(communicator_.broadcast_string(text, 0, "order of gradients"));
  std::vector<int> order;
  for (int p; agreed >> p;) order.push_back(p);
  if (order.empty()) return false;
  place(order);
  return true;
}

std::vector<int64_t> Reducer::bucket_bytes() const {
  std::vector<int64_t> bytes;
  for (const Bucket& bucket : buckets_) bytes.push_back(bucket.flat.bytes());
  return bytes;
}

}  // namespace capstan::distributed
