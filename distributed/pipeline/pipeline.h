// Defines Pipeline, training of a model whose layers are dealt out to ranks.
//
// The idea (Huang et al. 2019, "GPipe", arXiv:1811.06965). A model that is a chain of layers is cut
// into stages, and each rank has one: its parameters, gradients and optimizer state, and nothing of
// the others. A batch is cut into m microbatches. Each goes through the stages, forward as outputs,
// backward as gradients, and while a stage works on one, the others work on others:
//
//   rank 0  [embedding, blocks 0-2]  --outputs-->   rank 1  [blocks 3-5, head]  --> loss
//                                    <-gradients--
//
// The gradients of a step are sums over its microbatches, so the result is that of one rank, while
// each holds a p-th of the model. What is lost is the time in which the first microbatch has not
// reached the last stages, and the last one has left the first ones: the bubble. What it costs, and
// how many microbatches' activations a stage keeps, depends on the order in which it takes its
// passes, the schedule (schedule.h: GPipe; 1F1B and interleaved 1F1B, Narayanan et al. 2021,
// arXiv:2104.04473; ZB-H1, Qi et al. 2023, arXiv:2401.10241). The schedule is data; what carries it
// out is the same for all (executor.h).
//
//   Pipeline pipeline(model, stages, {.schedule = "1f1b", .microbatches = 8, .loss = mean_loss,
//                                     .example = {tokens}},
//                     [&](nn::Module& chunk) { return std::make_unique<Ddp>(chunk, data); });
//   optim::AdamW adamw(pipeline.parameters());        // this stage's
//   ...
//   pipeline.run(split({tokens}, {labels}, 8));
//   pipeline.clip_grad_norm(1);                       // of the whole model
//   adamw.step(rate);
//   pipeline.after_step();
//   adamw.zero_grad();
//
// `stages` joins the ranks of one pipeline, `data` those that have the same stage of several: the
// axes of a Mesh. How a stage's gradients become those of all its replicas is not the pipeline's
// business: each chunk has a gradient path (gradient_path.h), a Ddp or a sharded one, and every
// microbatch's backward is one pass of it; the last one reduces.
//
// Equal runs. With virtual shards in the path (reducer.h), one a microbatch, the weights are those
// of one rank to the last bit, under every schedule and on any number of stages and replicas: all
// schedules take the backward passes of a chunk in the order of the microbatches; gradients of tied
// parameters are added in the order of one rank's tape (executor.cc); random numbers go on from
// chunk to chunk where one rank's would (trace.h).
//
// Errors. What does not fit is refused at construction, by all ranks. An exception in a run, on any
// rank, ends it on all, with the same text; the pipeline is then of no more use.
#pragma once

#include "core/recipe.h"
#include "distributed/pipeline/executor.h"

namespace capstan::distributed::pipeline {

/// All of it the same on all ranks.
struct PipelineOptions {
  std::string schedule = "1f1b";  // one of schedule_names(), but for "forward"
  int chunks = 1;                 // of each stage
  int microbatches = 1;           // of a step
  Loss loss = {};
  /// How many layers each chunk has, stages * chunks numbers; empty: balanced by the operations
  /// that layers need, counted on meta for the example.
  Cut cut = {};
  /// A microbatch's inputs, of which shapes and dtypes count: to find layers that do not fit before
  /// the first step. May be left empty if there is a cut.
  Tensors example = {};
  /// Whether gradients of borrowed parameters (chunk.h) travel with each microbatch, so that sums
  /// have the bits of one rank, or only once a step, for less traffic.
  bool ties_each_microbatch = true;
  /// Of a model on meta, one that fits on no rank (core/recipe.h): each rank makes the numbers of
  /// its stage alone.
  const Recipe* recipe = nullptr;
};

/// Makes the gradient path of one of this rank's chunks. All ranks call it for their first chunk,
/// then for their second, and so on, but for chunks without a parameter to train.
using MakePath = std::function<std::unique_ptr<GradientPath>(nn::Module& chunk)>;

class Pipeline : public GradientPath {
 public:
  /// Stage s is rank s of `stages`. Every rank has the whole model, of which it keeps its stage:
  /// the other layers' parameters are moved to meta, if they are not there already. A collective.
  ///
  /// Throws ValueError on all ranks for a schedule, chunks or microbatches that there cannot be, a
  /// cut that does not fit the layers, fewer layers than chunks, no loss, layers that deal() or
  /// trace() refuses, an own parameter without numbers, and a last chunk with nothing to train;
  /// SharedError where ranks differ; and what make_path throws. Model and communicator must outlive
  /// the pipeline.
  Pipeline(const nn::Chain& chain, Communicator& stages, PipelineOptions options,
           const MakePath& make_path);
  ~Pipeline() override;

  /// Forward and backward over the microbatches of one step; afterwards gradients are those of the
  /// whole window, over all replicas. A collective of the pipeline, and of its replicas. Throws
  /// ValueError, on all ranks, for another number of microbatches, a weight that is not 0 or more,
  /// and inputs that the first layer does not take; SharedError if ranks have different ones, and
  /// for whatever goes wrong on one of them.
  void run(const std::vector<Microbatch>& microbatches);

  /// Forward passes only, as many as there are inputs, without a tape. What the last layer gave
  /// each, on the last stage; nothing on the others. Whether dropout is on is the model's affair:
  /// model.eval(). A collective of the pipeline.
  std::vector<Tensors> evaluate(const std::vector<Tensors>& inputs);

  int stage() const { return stages_.rank(); }
  const Schedule& schedule() const { return schedule_; }
  const Cut& cut() const { return cut_; }
  /// Operations of each layer's forward pass on the example; empty without one.
  const std::vector<double>& layer_costs() const { return costs_; }
  /// This rank's, each with its gradient path.
  const std::vector<Part>& parts() const { return parts_; }
  /// Parameters and buffers of this stage, under the model's names; each is of one stage only.
  NamedTensors state_dict() const;

  /// When the passes of the last run ran, on all stages, in seconds. Clocks are set by a barrier at
  /// the start of each run from the next on after the first call of time_runs(). A collective.
  Timeline timeline();
  void time_runs(bool on = true) { timed_ = on; }
  /// The most pairs of chunk and microbatch that this stage kept at once in the last run.
  int peak_live() const { return executor_->peak_live(); }

  // As a gradient path: what a training loop asks.

  const NamedTensors& parameters() const override { return parameters_; }
  Pieces pieces() const override;
  ExactSum squares_of_gradients() override;
  double clip_grad_norm(double limit) override;
  /// Also for programs that have written into parameters: loaded a checkpoint, say. The copies of
  /// borrowed parameters get their owners' new numbers when the next run begins.
  void after_step() override;
  /// The same on all stages.
  Share last() const override { return last_; }
  /// Of this stage's chunks.
  const Overlap& overlap() const override { return overlap_; }
  /// Throw ValueError: a pipeline runs whole steps, by run().
  void pass(const std::function<void()>& run, const Share& share, Sync sync) override;
  void backward_without_data(Sync sync) override;

 private:
  void plan(const nn::Chain& chain);
  void make_parts(const Deal& deal, const MakePath& make_path);
  void make_links(const std::vector<Tie>& ties);
  const Trace& trace_of(const Tensors& inputs);
  void carry_out(const Schedule& schedule, const std::vector<Microbatch>& microbatches);
  void share_ties();
  void learn_outcome();
  template <class F>
  void together(F f);

  Communicator& stages_;
  const nn::Chain twin_;  // the model on meta
  nn::Module& model_;
  const PipelineOptions options_;
  Schedule schedule_;
  Cut cut_;
  std::vector<double> costs_;
  std::vector<Part> parts_;
  Links links_;
  std::unique_ptr<Executor> executor_;
  std::map<std::string, Trace> traces_;  // by what the inputs are
  NamedTensors parameters_;
  Share last_;
  Overlap overlap_;
  bool ties_are_old_ = true;  // the copies of borrowed parameters
  bool timed_ = false;
};

}  // namespace capstan::distributed::pipeline
