// Defines Ddp, distributed data parallelism (Li et al., "PyTorch Distributed: experiences on
// accelerating data parallel training", VLDB 2020).
//
// Every rank has the whole model and a part of each batch. After backward the ranks average their
// gradients, so that all take the same step and the models stay equal. A Ddp is attached to a
// model; it does not contain it: call the model as always, any number of times, and let the Ddp run
// backward.
//
//   distributed::Ddp ddp(model, communicator);
//   for (data::Batch& batch : loader.epoch(e)) {
//     Tensor loss = cross_entropy(model(batch.inputs), batch.labels);
//     ddp.backward(loss, batch.size());   // reduces while it computes
//     optimizer.step(rate(step++));
//     optimizer.zero_grad();
//   }
//
// Windows, and what else every strategy has: gradient_path.h.
//
// Several models may be trained on one communicator, each with its own Ddp: all ranks must run
// their backward passes in the same order.
#pragma once

#include "distributed/name_patterns.h"
#include "distributed/reduced_path.h"
#include "nn/module.h"

namespace capstan::distributed {

/// All of it the same on all ranks.
struct DdpOptions {
  int64_t first_bucket_bytes = int64_t{1} << 20;  // small, so that communication starts early
  int64_t bucket_bytes = int64_t{25} << 20;
  Unused unused = Unused::error;
  /// What order() gave in an earlier run of this model, on every rank: a resumed run then sums in
  /// the same order from its first window on, to the last bit.
  std::vector<int> order = {};
  /// If not 0, a window is this many backward passes over all ranks, the same number on each, and
  /// its gradient is the same to the last bit on any number of ranks that divides it: see
  /// reducer.h. Both are powers of two.
  int64_t virtual_shards = 0;

  /// What takes the sums over ranks: sum_in(Dtype::bfloat16), power_sgd(), one of your own; null
  /// for the plain all-reduce. Not with virtual shards. One hook belongs to one Ddp.
  std::shared_ptr<BucketHook> hook = nullptr;
  /// Gradients are divided by this before the ranks' are added, and by the rest of the weight
  /// after. Left open it is 1 for float32 and float64, and all of the weight for half precision and
  /// hooks, whose sums could overflow.
  std::optional<double> predivide = {};
  /// Names of parameters and buffers (see NamePatterns) that stay each rank's own, and may have
  /// other shapes on each: they are not copied from rank 0, compared, or averaged. Their gradients
  /// are those of this rank's mean loss.
  std::vector<std::string> exclude = {};
  /// Names of parameters of which every rank has others, but which work for the samples of all:
  /// experts (expert_parallel/). They stay each rank's own, too; their gradients, which are sums
  /// over all ranks when backward gives them, are divided by the weight of all.
  std::vector<std::string> spread = {};

  /// Throws GradientError on all ranks, naming parameter and rank, if a rank has a gradient that is
  /// not finite. Costs a look at each gradient and a small collective a window.
  bool check_nan = false;
  /// Calls check_replicas() in every so many windows; 0 for never.
  int64_t check_replicas = 0;
};

class Ddp : public ReducedPath {
 public:
  /// Checks that all ranks have the same options, and the same parameters and buffers by name,
  /// shape, dtype and whether they are trained; copies rank 0's numbers to the others and places
  /// the gradients into buckets. Throws CommError on every rank if they differ, and for a
  /// pattern that fits no name; ValueError as Reducer does, and for a negative check_replicas;
  /// DtypeError as AveragedBuffers and the hook do. Model and communicator must outlive the Ddp.
  Ddp(nn::Module& model, Communicator& communicator, DdpOptions options = {});

  /// Empty with `spread` parameters: ranks that hold them otherwise have other numbers.
  std::vector<int> order() const override;
  ExactSum squares_of_gradients() override;
  double clip_grad_norm(double limit) override;

  /// Throws SharedError on every rank, naming the first difference and the ranks, unless all have
  /// the same parameters and buffers, but for excluded and local ones. A collective.
  void check_replicas() const;

 private:
  void window_ends() override;

  const DdpOptions options_;
  NamedTensors shared_;  // parameters and buffers that are equal on all ranks
  int64_t windows_ = 0;
};

}  // namespace capstan::distributed
