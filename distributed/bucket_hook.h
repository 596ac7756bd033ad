// Defines BucketHook, which takes a bucket's sum over the ranks in its own way: compressed, in
// another dtype, along another route.
//
// Without a hook a bucket leaves in one all-reduce. A hook works in rounds, each of which ends in
// one collective. The first runs within backward, when the bucket's turn has come; the others after
// backward, each for all buckets before the next, so that one bucket's arithmetic hides another's
// communication:
//
//   struct Plain : BucketHook {                      // what happens without a hook
//     std::string name() const override { return "plain"; }
//     std::optional<Work> round(int round, const GradientBucket& bucket, Communicator& c) override
//     {
//       if (round > 0) return std::nullopt;          // `flat` holds the sum
//       return c.all_reduce(bucket.flat, Reduce::sum, bucket.tag);
//     }
//   };
//
// What a hook is given has been divided by the weight of all ranks: the sum over the ranks is the
// mean over the samples, and of a magnitude that half precision can hold. Built in: cast_hook.h,
// power_sgd.h.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "distributed/checkpoint/load.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// The gradients of some parameters, of one dtype, in one piece of memory.
struct GradientBucket {
  int number = 0;
  std::string tag;         // says in words what it holds
  Tensor flat;             // one axis: the gradients and, between them, zeros that align them
  NamedTensors gradients;  // views of `flat` under their parameters' names
};

class BucketHook {
 public:
  virtual ~BucketHook() = default;

  /// What the hook does, with its options: the same on all ranks.
  virtual std::string name() const = 0;

  /// Called on all ranks before the first window, and whenever gradients were placed anew. May use
  /// collectives. What is kept for a gradient must go by its name: buckets change.
  virtual void prepare(std::span<const GradientBucket>, Communicator&) {}

  /// Round 0 finds this rank's gradients in `bucket.flat` and starts a collective; round k finds
  /// that of round k - 1 done. Nothing is returned once `flat` holds the sum over the ranks, the
  /// same to the bit on all of them. All ranks must take the same rounds.
  virtual std::optional<Work> round(int round, const GradientBucket& bucket,
                                    Communicator& communicator) = 0;

  /// What it keeps from window to window, for Saver::save(). After prepare().
  virtual Groups state(const Communicator&) const { return {}; }
  /// Takes that from a checkpoint, of any number of ranks, once it is prepared and before the first
  /// window. A collective; throws as distributed::load() does.
  virtual void load(const std::string& /*folder*/, const Manifest&, Communicator&) {}
};

}  // namespace capstan::distributed
