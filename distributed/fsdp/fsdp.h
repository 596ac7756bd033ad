// Defines Fsdp, training in which the ranks share out what each of them would otherwise have whole.
//
// Data parallelism keeps everything on every rank: with Adam in float32, 4 bytes a parameter for
// the weights, 4 for the gradients and 8 for the moments. But an element of the weights needs to be
// stepped once in the job, not once a rank. So give each of n ranks one n-th of all elements, its
// shard, and let it step those alone. This is done in three stages, each of which shares out more
// (Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter
// models", SC 2020, arXiv 1910.02054, section 5):
//
//   stage  what a rank has                 bytes a parameter      sent a step, beside DDP
//   DDP    everything                      4 + 4 + 8              1    (an all-reduce)
//     1    1/n of the optimizer's state    4 + 4 + 8/n            1    (reduce-scatter, all-gather)
//     2    and of the gradients            4 + 4/n + 8/n          1
//     3    and of the weights              (4 + 4 + 8)/n          1.5  (two all-gathers)
//    3, k  and between forward and         (4 + 4 + 8)/n + 4/k    1 + (1 - 1/k) / (2 - 2/n)
//          backward 1/k of the weights
//
// An all-reduce is a reduce-scatter followed by an all-gather. Stages 1 and 2 put the step between
// the two: gradients are scattered, so that each rank gets the mean of its shard; it steps that;
// then the new weights are gathered. Nothing is sent that DDP does not send. Stage 3 has no whole
// weights to keep: a part of the model, a unit (units.h), is gathered when it is called, released,
// and gathered again for backward (Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded
// data parallel", VLDB 2023, arXiv 2304.11277, sections 3 and 4; gathering.h). A rank may keep more
// than its shard between the two, an n/k-fold one: then the second gather is among k neighbours,
// those of a host, say, and sends (1 - 1/k) instead of (1 - 1/n) of the weights (FsdpOptions::
// reshard_ranks; k = 1: nothing).
//
//   distributed::Fsdp fsdp(model, communicator, {.stage = 3});
//   optim::AdamW adamw(fsdp.parameters());          // this rank's shards
//   ...
//   fsdp.backward(cross_entropy(model(x), y), samples);
//   fsdp.clip_grad_norm(1);
//   adamw.step(rate);
//   fsdp.after_step();
//   adamw.zero_grad();
//
// Like Ddp it is attached to a model and renames nothing, and gradients take the same path
// (reducer.h); two verbs differ. With virtual shards, the weights are those of Ddp to the last bit:
// what rules that work element by element make of an element does not depend on where it is stored.
// Optimizers that look at a tensor as a whole (Lamb, Muon, ...) would take a shard for it, so their
// constructors refuse parameters() (optim/check.h).
//
// Accumulation. Backward passes with Sync::no leave whole gradients on every rank, which the last
// one of a window reduces: 4 bytes a parameter that stages 2 and 3 do not have otherwise. With
// `reduce_each_pass` every pass scatters its own instead, and each rank adds up its parts: the
// memory of a single pass, for a reduce-scatter (1/2 of DDP's traffic) a pass. Sums are then over
// ranks first and over passes second, which rounds differently. The tree of virtual shards adds a
// rank's own first (reducer.h), so the two exclude each other.
//
// In half precision, model.to(Dtype::bfloat16) before: weights, gradients and gathers then take
// 2 bytes; the optimizer keeps float32 master weights of its shards (optim/optimizer.h), and
// `reduce_dtype` is that of the sums. Buffers are whole on every rank, so their dtype is the
// model's affair, not this one's: to(Dtype) leaves running statistics in float32, which 16 bits
// would stop, and to(parameters, buffers) has it any other way (nn/module.h).
#pragma once

#include <optional>

#include "core/recipe.h"
#include "distributed/fsdp/gathering.h"
#include "distributed/fsdp/units.h"
#include "distributed/reduced_path.h"
#include "optim/grad_scaler.h"

namespace capstan::distributed {

/// All of it the same on all ranks.
struct FsdpOptions {
  int stage = 3;  // 1, 2 or 3
  UnitPolicy units = repeated_units();
  /// Stage 3: how many neighbouring ranks share out the weights of a unit from its forward to its
  /// backward, which gathers them from these alone. 0: all, it gathers from everywhere again; 1:
  /// each rank keeps them whole. (PyTorch's reshard_after_forward: true is 0, false 1, n is n.)
  int reshard_ranks = 0;
  bool prefetch = true;           // of the next unit
  bool reduce_each_pass = false;  // stages 2 and 3: no whole gradients between passes
  Unused unused = Unused::error;
  int64_t virtual_shards = 0;              // see DdpOptions
  bool check_nan = false;                  // see DdpOptions
  std::optional<Dtype> reduce_dtype = {};  // of sums over ranks; that of the gradients if left open
  /// Where shards are, and with them the optimizer's state and its work: cpu:0 for a model that
  /// computes elsewhere. The model's own device if left open.
  std::optional<Device> offload = {};
  /// Hybrid sharding: so many neighbouring ranks, those of a host, say, share out the model, and
  /// each such group has a replica. What is gathered stays in the group. 0: all ranks.
  int shard_ranks = 0;
  /// Of a model on meta, one that fits on no rank: its numbers are made on `device` unit by unit,
  /// the same on all ranks, each of which keeps its shards. Rank 0's are not copied then.
  const Recipe* recipe = nullptr;
  Device device = {};
};

class Fsdp : public ReducedPath {
 public:
  /// Checks that all ranks have the same options, units and parameters, copies rank 0's numbers to
  /// the others, and shares them out: the model's parameters are views of flat ones from now on,
  /// in stage 3 without memory. Throws SharedError on every rank where ranks differ; for a stage
  /// that there is not, units that do not fit the model, a number of ranks that does not fit
  /// shard_ranks or reshard_ranks, options that exclude each other, a model with nothing to train
  /// or on several devices, a device or dtype that cannot be; and as Reducer does for virtual
  /// shards. Model and communicator must outlive this; when it goes, stage 3 leaves the model
  /// without its numbers (see full_parameters()).
  Fsdp(nn::Module& model, Communicator& communicator, FsdpOptions options = {});
  ~Fsdp() override;

  /// As optim::clip_grad_norm(), over all shards: each element of the model counts once.
  double clip_grad_norm(double limit) override;
  ExactSum squares_of_gradients() override;
  /// As scaler.unscale(parameters()), but false on all ranks if it is on one: either all step, or
  /// none. A collective.
  bool unscale(const optim::GradScaler& scaler);
  /// To be called behind every step: shares the new weights, at once or, in stage 3, when they are
  /// used. A collective.
  void after_step() override;
  std::vector<int> order() const override { return {}; }
  /// In stage 3 all units are gathered, once, for any number of passes: see gathering.h. What holds
  /// may hold again; let_go() without a hold() throws ValueError.
  void hold() override;
  void wait_for(const Tensor& parameter) override;
  void let_go() override;
  Pieces pieces() const override { return pieces_; }

  /// While it lives, all parameters are whole, to be looked at, evaluated or saved. What is written
  /// into them stays: each rank takes its part of it, so all must write the same.
  class FullParameters {
   public:
    ~FullParameters();
    FullParameters(const FullParameters&) = delete;
    FullParameters& operator=(const FullParameters&) = delete;

   private:
    friend class Fsdp;
    explicit FullParameters(Fsdp& fsdp);
    Fsdp& fsdp_;
    std::vector<int64_t> versions_;  // of the flat parameters
  };
  /// A collective.
  [[nodiscard]] FullParameters full_parameters() { return FullParameters(*this); }

  const std::vector<Unit>& units() const { return units_; }
  /// By the communicators that this made, beside the one that it was given.
  int64_t bytes_sent() const;
  /// Of the gathers, over all passes so far; overlap() is that of the reductions.
  const Overlap& gather_overlap() const;

 private:
  void window_begins() override;
  void pass_without_data(const std::function<void()>& reduce) override;
  void pass_ends() override;
  void gradients_are_there() override;

  Communicator& group();
  void start_equal(nn::Module& model);
  void share_out(const std::vector<UnitPlan>& plan);
  void connect(nn::Module& model);

  const FsdpOptions options_;
  std::unique_ptr<Communicator> group_, replicas_;  // in hybrid sharding
  std::unique_ptr<Communicator> gathers_;           // in stage 3: the group again, for gathers
  std::unique_ptr<Communicator> near_;              // in stage 3: reshard_ranks of the group
  std::vector<Unit> units_;
  NamedTensors leaves_;                   // of the model, that are trained
  std::vector<Tensor> stepped_;           // this rank's part of each
  std::vector<Tensor> places_;            // and of its gradient
  Pieces pieces_;                         // what the parts are of the model
  std::unique_ptr<Gathering> gathering_;  // in stage 3
};

}  // namespace capstan::distributed
