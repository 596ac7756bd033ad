// Implements Reducer: placing, launching, folding, finishing.
#include "distributed/reducer.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <sstream>

#include "autograd/node.h"
#include "core/raise.h"
#include "core/threads.h"
#include "distributed/comm/combine.h"

namespace capstan::distributed {

namespace {

/// Slices start on cache lines, so that kernels read them alike wherever they lie in a bucket.
int64_t aligned(int64_t elements, Dtype dtype) {
  const int64_t line = Allocator::kAlignment / item_size(dtype);
  return (elements + line - 1) / line * line;
}

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

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

double Overlap::hidden() const {
  return communication > 0 ? std::clamp(1 - exposed / communication, 0.0, 1.0) : 1;
}

Reducer::Reducer(NamedTensors parameters, Communicator& communicator, std::vector<int64_t> limits,
                 std::vector<int> ready_order, int64_t virtual_shards)
    : parameters_(std::move(parameters)),
      communicator_(communicator),
      limits_(std::move(limits)),
      local_shards_(shards_of_each_rank(virtual_shards, communicator.size())),
      order_(virtual_shards > 0 ? Order::tree : Order::any) {
  if (parameters_.empty()) raise<ValueError>("[reducer] the model has no parameter to train");
  std::vector<int> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (!ready_order.empty()) {
    if (!std::is_permutation(order.begin(), order.end(), ready_order.begin(), ready_order.end())) {
      raise<ValueError>("[reducer] the order must name each of the {} parameters once",
                        parameters_.size());
    }
    order = std::move(ready_order);
  }
  place(order);
}

Reducer::~Reducer() {
  for (const auto& [_, parameter] : parameters_) {
    if (parameter.requires_grad()) accumulator(parameter).unplace_grad();  // else frozen since
  }
}

void Reducer::place(std::span<const int> order) {
  std::vector<BucketItem> items;
  for (int p : order)
    items.push_back({parameters_[p].second.bytes(), parameters_[p].second.dtype()});
  plan_ = plan_buckets(items, limits_);

  std::vector<Bucket> buckets(plan_.size());  // the old ones stay until the gradients have moved
  bucket_of_.assign(parameters_.size(), 0);
  for (size_t b = 0; b < plan_.size(); ++b) {
    for (int& item : plan_[b]) item = order[item];
    const Tensor& first = parameters_[plan_[b][0]].second;
    int64_t length = 0;
    for (int p : plan_[b]) length += aligned(parameters_[p].second.numel(), first.dtype());
    buckets[b].share_at = length;
    if (b == 0) length += aligned(2, first.dtype());
    buckets[b].tag = fmt::format("bucket {}: {}{}", b, parameters_[plan_[b][0]].first,
                                 plan_[b].size() > 1 ? "…" : "");
    buckets[b].flat =
        communicator_.shared_zeros({length}, {first.dtype(), first.device()}, buckets[b].tag);
    for (int64_t pair = 2; pair <= local_shards_; pair *= 2) {
      buckets[b].subtrees.push_back(empty_like(buckets[b].flat));
    }
    int64_t offset = 0;
    for (int p : plan_[b]) {
      const Tensor& parameter = parameters_[p].second;
      Layout slice = Layout::dense(parameter.shape());
      slice.offset = offset;
      accumulator(parameter).place_grad(view_of(buckets[b].flat, slice));
      offset += aligned(parameter.numel(), first.dtype());
      bucket_of_[p] = static_cast<int>(b);
    }
  }
  buckets_ = std::move(buckets);
}

void Reducer::start(const Share& mine) {
  mine_ = mine;
  launched_ = 0;
  ready_order_.clear();
  for (size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b].missing = static_cast<int>(plan_[b].size());
}

void Reducer::mark_ready(int parameter) {
  ready_order_.push_back(parameter);
  if (--buckets_[bucket_of_[parameter]].missing == 0) launch_ready_buckets();
}

void Reducer::launch_ready_buckets() {
  for (; launched_ < buckets_.size() && buckets_[launched_].missing == 0; ++launched_) {
    Bucket& bucket = buckets_[launched_];
    if (launched_ == 0) write_share(mine_);
    add_subtrees(bucket);
    bucket.work = communicator_.all_reduce(bucket.flat, Reduce::sum, bucket.tag, order_);
  }
}

void Reducer::write_share(const Share& share) {
  const Bucket& first = buckets_[0];
  fill_elements(view_of(first.flat, {{1}, {1}, first.share_at}), share.weight);
  fill_elements(view_of(first.flat, {{1}, {1}, first.share_at + 1}), share.loss);
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
  for (Bucket& bucket : buckets_) {
    add_subtrees(bucket);
    copy_elements(bucket.flat, bucket.subtrees[std::countr_one(static_cast<uint64_t>(shard_))]);
  }
  ++shard_;
}

Reducer::Share Reducer::finish() {
  if (launched_ < buckets_.size()) {
    raise<GradientError>("[reducer] {} of {} buckets left: a parameter was not marked ready",
                         launched_, buckets_.size());
  }
  const auto begin = Clock::now();
  Clock::time_point busy_until = Clock::time_point::min();
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    const auto from = std::max(bucket.work.started(), busy_until);
    busy_until = std::max(busy_until, bucket.work.finished());
    if (busy_until > from) overlap_.communication += seconds(busy_until - from);
    const auto exposed_from = std::max(from, begin);
    if (busy_until > exposed_from) overlap_.exposed += seconds(busy_until - exposed_from);
  }
  shard_ = 0;
  const Bucket& first = buckets_[0];
  const Share all{.weight = view_of(first.flat, {{}, {}, first.share_at}).item<double>(),
                  .loss = view_of(first.flat, {{}, {}, first.share_at + 1}).item<double>()};
  for (Bucket& bucket : buckets_) {
    scale_elements(bucket.flat, all.weight > 0 ? 1 / all.weight : 0);
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
