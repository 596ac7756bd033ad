// Defines Reducer, which turns the gradients of one rank into those of the whole job, while
// backward is still computing the others.
//
// The gradients of all parameters live in buckets, flat tensors cut into slices (buckets.h). When a
// gradient is complete its parameter is marked ready; when all of a bucket are ready, and all
// buckets before it have left, the bucket leaves in one all-reduce. That fixed order of leaving is
// the same on all ranks, whatever the order of their gradients, so ranks cannot wait for each other
// in a circle. At the end finish() waits for the buckets, and the gradients, being slices, are in
// place without a copy.
//
// Averages are exact (weighted sums, divided once). Each rank contributes the sum over its samples,
// and its weight rides in the tail of the first bucket; after the reduction every rank divides by
// the weight of all. So ranks with more samples count for more, a rank without any counts nothing,
// and the loss is that of one rank with the whole batch:
//
//   rank 0: x = 1, 2, 3 ; rank 1: x = 10 ; loss (w x - 1)^2 at w = 0
//   sum over samples:  rank 0: -12, weight 3 ; rank 1: -20, weight 1 ; together -32 / 4 = -8
//   (the mean of the ranks' means would be (-4 - 20) / 2 = -12: wrong)
//
// The weight has the dtype of the bucket: in float32 it counts exactly up to 2^24 samples a window,
// and beyond that is rounded like the gradients. Where that would not do, because the gradients are
// in half precision or a hook (bucket_hook.h) takes over the bucket, the share goes ahead on its
// own, in float64, when the reduction starts; it is there before the first bucket is complete, and
// gradients are then divided before they leave: what is added up are parts of a mean, which half
// precision can hold, not sums over samples.
//
// Virtual shards. Floating point sums depend on their order, so training on another number of ranks
// drifts apart: by rounding at first, then by more, since training amplifies it. With
// `virtual_shards` set, a window is cut into that many backward passes over all ranks, always the
// same ones, and all sums follow one balanced binary tree over them, whoever holds which:
//
//        +               shards = 4
//      /   \             1 rank:  adds all of it itself
//     +     +            2 ranks: each adds one half of the tree, the all-reduce (Order::tree) the
//    / \   / \                    top
//   0   1 2   3          4 ranks: the all-reduce adds the whole tree
//
// So the gradients, and with them the weights, are the same to the last bit on 1, 2 and 4 ranks. A
// rank adds its subtree as a binary counter is incremented: fold() keeps a finished subtree of 2^k
// shards at level k until its sibling is there; one buffer a level, log2(shards / ranks) in all.
//
// Scattered sums. Sharded training (fsdp/) changes the verb: a bucket leaves in one reduce-scatter,
// and each rank keeps its part of the mean alone. The rest of a bucket's memory may then go, and
// come again with the first gradient of the next pass. A window of several passes may reduce each
// of them so: the parts add up, and the last pass divides by the weight of all.
#pragma once

#include <span>
#include <vector>

#include "autograd/hooks.h"
#include "core/tensor.h"
#include "distributed/bucket_hook.h"
#include "distributed/buckets.h"
#include "distributed/comm/communicator.h"
#include "distributed/gradient_path.h"
#include "distributed/nan_check.h"
#include "distributed/overlap_meter.h"

namespace capstan::distributed {

/// Sums of which each rank gets a part.
struct Scatter {
  BucketPlan plan = {};              // parameter numbers, bucket by bucket, as they are to leave
  Communicator* ranks = nullptr;     // that share out a sum, in equal parts
  Communicator* replicas = nullptr;  // that get the same part, if several groups of `ranks` work
  bool release = false;              // gradients have memory from their first until their sum alone
  Device device = {};                // of the parts
  std::optional<Dtype> dtype = {};   // of the sums, where it is not the gradients'
};

/// All of it the same on all ranks.
struct ReducerOptions {
  std::vector<int64_t> limits = {};   // bytes of the buckets: see plan_buckets()
  std::vector<int> ready_order = {};  // of the parameters, where it is known
  int64_t virtual_shards = 0;         // of a window, over all ranks; 0 for none
  std::shared_ptr<BucketHook> hook = nullptr;
  std::optional<double> predivide = {};  // see DdpOptions
  bool check_nan = false;
  std::optional<Scatter> scatter = {};
};

/// How many of a window's virtual shards each rank has; 1 if there are none. Throws ValueError for
/// fewer than ranks, or where one of the two is no power of two.
int64_t shards_of_each_rank(int64_t shards, int ranks);

class Reducer {
 public:
  /// `parameters`: leaves that require gradients, in an order that ranks share, on one device.
  /// Their gradients are placed into buckets at once, in the reverse of that order, which is about
  /// the order in which backward completes them, or in the ready order if that is known. Throws
  /// ValueError unless that names each parameter once; for virtual shards as shards_of_each_rank()
  /// does; for virtual shards together with a hook or a predivision, whose rounding would depend on
  /// the ranks; and for a predivision that is not above 0. A collective.
  ///
  /// With scattered sums the buckets are those of the plan: the parameters of one, each of
  /// aligned() elements, and zeros up to as many equal parts as there are ranks.
  Reducer(NamedTensors parameters, Communicator& communicator, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Virtual shards of a window on this rank, at least 1.
  int64_t local_shards() const { return local_shards_; }
  /// How many of them have been folded in this window.
  int64_t folded_shards() const { return shard_; }
  /// Takes the gradients and the share of one virtual shard, which is not this rank's last one of
  /// the window, into the tree. A parameter without a gradient counts as 0.
  void fold(const Share& shard);
  /// Forgets what was folded or summed: the window is given up.
  void forget_window();

  /// Starts a reduction; each parameter is then marked ready once, in any order. One that has no
  /// gradient counts as 0. With scattered sums that are released, and no virtual shards, it need
  /// not close the window: the next one adds to its sums.
  void start(const Share& mine, bool closes = true);
  void mark_ready(int parameter);
  /// For gradients that are not the reducer's own: takes them into the check for NaN of this
  /// reduction.
  void look_for_nan(const NamedTensors& gradients) { nan_check_.look(gradients); }
  /// Waits for the buckets and, to close the window, divides by the weight of all ranks (a weight
  /// of 0 gives gradients of 0). Returns the shares of all, summed over the window so far. Throws
  /// CommError; and GradientError as NanCheck does.
  Share finish();

  /// Places the gradients anew, in the order in which rank 0's became ready in the last reduction,
  /// if that is a true one (`order_is_true` on rank 0). A collective; returns whether there is a
  /// new plan.
  bool replan(bool order_is_true);

  /// Parameter numbers, bucket by bucket.
  const BucketPlan& plan() const { return plan_; }
  /// Bytes of each bucket: gradients, what aligns them, and the shares.
  std::vector<int64_t> bucket_bytes() const;
  /// This rank's part of a bucket, 1-d: the mean when finish() returns, if sums are scattered.
  const Tensor& part(size_t bucket) const { return buckets_[bucket].part; }
  /// Sums over all reductions so far.
  const Overlap& overlap() const { return meter_.total(); }

 private:
  struct Bucket : GradientBucket {
    int64_t elements = 0;          // of the gradients; the share may follow
    int missing = 0;               // parameters that are not ready
    std::vector<Tensor> subtrees;  // level k: the sum of 2^k shards that waits for its sibling
    Tensor part;                   // with scattered sums: this rank's, of all parts
    Tensor wire;                   // with scattered sums: what is under way
    Work work;

    Tensor all() const { return view_of(flat, {{elements}, {1}, 0}); }
  };

  void place(std::span<const int> order);
  Bucket make_bucket(std::string tag, int64_t elements, bool carries_share, TensorOptions options);
  void make_part(Bucket& bucket) const;
  Tensor own_part(const Tensor& whole) const;
  void make_room(int parameter);
  void complete(int parameter);
  void fill_bucket(Bucket& bucket, std::span<const int> parameters);
  void launch_ready_buckets();
  void launch(Bucket& bucket);
  void scatter(Bucket& bucket);
  void settle(Bucket& bucket);
  void take(const Tensor& sum, const Tensor& part);
  void learn_divisor();
  void add_subtrees(Bucket& bucket);
  void wait_for_all();
  void write_share(const Share& share);
  Share read_share() const;

  NamedTensors parameters_;
  Communicator& communicator_;
  const ReducerOptions options_;
  const int64_t local_shards_;
  const Order order_;
  const bool share_ahead_;  // of the buckets: gradients are divided before they leave
  const bool share_apart_;  // in a bucket of its own, the last one
  int64_t shard_ = 0;       // of this window and rank
  BucketPlan plan_;
  std::vector<Bucket> buckets_;   // those of the plan, and the share's
  Tensor share_;                  // its two elements, in the bucket that carries it
  std::vector<int> bucket_of_;    // parameter to bucket
  std::vector<int> ready_order_;  // of the current or last reduction
  size_t launched_ = 0;           // buckets that have left
  Share mine_;
  bool closes_ = true;  // this reduction the window
  Share earlier_;       // of all ranks, from reductions of this window before this one
  double divisor_ = 1;  // of this reduction's gradients, before they are added up
  NanCheck nan_check_;
  std::vector<HookHandle> hooks_;
  OverlapMeter meter_;
};

}  // namespace capstan::distributed
