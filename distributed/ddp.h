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

#include "autograd/engine.h"
#include "distributed/averaged_buffers.h"
#include "distributed/gradient_path.h"
#include "distributed/name_patterns.h"
#include "distributed/reducer.h"
#include "nn/module.h"

namespace capstan::distributed {

/// What happens to a parameter that a window's loss does not depend on.
enum class Unused {
  error,      // GradientError naming it
  zero_fill,  // its gradient is 0
  skip,       // it has no gradient if no rank used it, so that step() leaves it alone; else as 0
};

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

  /// Throws GradientError on all ranks, naming parameter and rank, if a rank has a gradient that is
  /// not finite. Costs a look at each gradient and a small collective a window.
  bool check_nan = false;
  /// Calls check_replicas() in every so many windows; 0 for never.
  int64_t check_replicas = 0;
};

class Ddp : public GradientPath {
 public:
  /// Checks that all ranks have the same options, and the same parameters and buffers by name,
  /// shape, dtype and whether they are trained; copies rank 0's numbers to the others and places
  /// the gradients into buckets. Throws CommError on every rank if they differ, and for a
  /// pattern that fits no name; ValueError as Reducer does, and for a negative check_replicas;
  /// DtypeError as AveragedBuffers and the hook do. Model and communicator must outlive the Ddp.
  Ddp(nn::Module& model, Communicator& communicator, DdpOptions options = {});
  ~Ddp() override;

  /// All parameters that require gradients.
  const NamedTensors& parameters() const override { return parameters_; }

  /// At the end of a window, averaged buffers are the mean of all ranks'. Throws GradientError for
  /// a gradient left from the window before, or that came past this Ddp, for unused parameters, for
  /// more or fewer passes than there are virtual shards, and as check_nan says; SharedError as
  /// check_replicas() does.
  void pass(const std::function<void()>& run, const Share& share, Sync sync) override;
  void backward_without_data(Sync sync = Sync::yes) override;

  double clip_grad_norm(double limit) override;

  /// Throws SharedError on every rank, naming the first difference and the ranks, unless all have
  /// the same parameters and buffers, but for excluded and local ones. A collective.
  void check_replicas() const;

  Share last() const override { return last_; }
  /// Of the parameters that are not excluded.
  std::vector<int> order() const override;

  const Reducer& reducer() const { return *reducer_; }
  const Overlap& overlap() const override { return reducer_->overlap(); }

 private:
  enum class Pass { none, accumulating, reducing };

  void begin_window_if_new();
  void check_pass(Sync sync) const;
  void fold_shard();
  void start_reduction(const BackwardPass* pass);
  void finish_reduction(bool had_data);
  void mark_ready(size_t parameter);
  void skip_unused();

  Communicator& communicator_;
  const DdpOptions options_;
  NamedTensors shared_;      // parameters and buffers that are equal on all ranks
  NamedTensors parameters_;  // that require gradients: of these, in the model's order,
  NamedTensors trained_;     // those whose gradients are averaged,
  NamedTensors own_;         // and the excluded ones
  std::unique_ptr<AveragedBuffers> averaged_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<HookHandle> hooks_;

  Pass pass_ = Pass::none;
  bool reduced_ = false;      // the gradients are those of a window that has ended
  bool bypassed_ = false;     // a gradient came that backward() here did not ask for
  bool planned_ = false;      // buckets follow the true order
  Share window_;              // of this rank, so far; with virtual shards, of the present one
  double own_weight_ = 0;     // of this rank in this window
  std::vector<bool> folded_;  // by parameter: an earlier shard of this window had a gradient for it
  std::vector<bool> ready_;   // by parameter: marked so in this reduction
  Tensor used_;               // with Unused::skip, by parameter: 1 if this rank, then any, used it
  Work used_work_;
  Share last_;
  int64_t windows_ = 0;
};

}  // namespace capstan::distributed
