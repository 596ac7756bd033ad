// Defines Strategy: how a model and the work of a step are spread over the ranks. The training loop
// (train.cc) is the same for all.
//
// There are two: every rank runs the whole model (whole_model.cc), or a stage of it
// (pipelined_model.cc). Beneath either, layers may be shared by tensor-parallel ranks, and
// gradients take the path of Ddp or of sharded training.
#pragma once

#include <memory>
#include <optional>

#include "core/random.h"
#include "data/loader.h"
#include "distributed/bucket_hook.h"
#include "distributed/checkpoint/load.h"
#include "distributed/context_parallel/context_parallel.h"
#include "distributed/gradient_path.h"
#include "distributed/name_patterns.h"
#include "distributed/tensor_parallel/tensor_parallel.h"
#include "models/evaluate.h"
#include "models/task.h"
#include "models/train_options.h"
#include "optim/optimizer.h"

namespace capstan::models {

/// The communicators of a run's mesh. An axis that all ranks are on has that of the run.
class Axes {
 public:
  /// A collective; refers to `world`.
  Axes(const distributed::Mesh& mesh, distributed::Communicator& world);

  const distributed::Mesh& mesh() const { return mesh_; }
  int coordinate(const std::string& axis) const { return mesh_.coordinate(world_.rank(), axis); }
  distributed::Communicator& world() const { return world_; }
  distributed::Communicator& data() const { return *data_; }
  distributed::Communicator& context() const { return *context_; }
  distributed::Communicator& pipeline() const { return *pipeline_; }
  distributed::Communicator& tensor() const { return *tensor_; }
  /// Data and context: the ranks that have the same weights, and share gradients.
  distributed::Communicator& replicas() const { return *replicas_; }
  /// Pipeline and tensor: the ranks that hold a copy of the model together.
  distributed::Communicator& copy() const { return *copy_; }

 private:
  distributed::Communicator* split(const std::vector<std::string>& axes);

  const distributed::Mesh mesh_;
  distributed::Communicator& world_;
  std::vector<std::unique_ptr<distributed::Communicator>> owned_;
  distributed::Communicator *data_, *context_, *replicas_, *pipeline_, *tensor_, *copy_;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  /// How this rank's gradients become those of all.
  virtual distributed::GradientPath& path() = 0;

  /// Runs forward and backward over this rank's next `count` batches, those of one step, of which
  /// some may be empty; afterwards the gradients are those of the whole step. `dropout.fork(i)` is
  /// the randomness of batch number i of the step. Returns what the model made of the batches, but
  /// for the loss. A collective.
  virtual Evaluation accumulate(data::Epoch& batches, int64_t count, const Generator& dropout) = 0;

  /// A forward pass of the model as it is evaluated: its logits, or nothing on a rank that does not
  /// have them. A collective of the ranks that hold a copy together.
  std::optional<Tensor> logits(const Tensor& inputs);

  /// Those logits of all places, where ranks have parts of each sequence. A collective, likewise.
  std::optional<Tensor> whole_logits(const Tensor& inputs);
  /// Of the last row of whole_logits(inputs), on all ranks that hold the copy together.
  std::vector<double> next_logits(const Tensor& inputs);
  /// Whether this rank is one of those that hold the first copy, or the only one.
  bool is_first_copy() const { return all_make_a_pass() || axes_.data().rank() == 0; }

  /// Limits the norm of the whole model's gradients, which is returned. A collective.
  double clip_grad_norm(double limit);

  /// What this rank holds of the whole model and of what an optimizer of path().parameters() keeps.
  distributed::Pieces model_pieces();
  distributed::Pieces optimizer_pieces(const optim::Optimizer& optimizer);

  /// SHA-256 of the whole model, as weights_sha256() of one rank's; the same on all ranks. A
  /// collective.
  std::string weights_sha256();

  /// What the gradients' path itself keeps from step to step, for checkpoints; mostly nothing.
  distributed::Groups state() const;
  /// Takes that from a checkpoint, before the first step. A collective; throws as
  /// distributed::load() does.
  void load_state(const std::string& folder, const distributed::Manifest& manifest);

 protected:
  Strategy(const TrainOptions& options, Task& task, const Axes& axes);

  /// For logits(): what the model gives, if that comes out here.
  virtual std::optional<Tensor> forward_pass(const Tensor& inputs) = 0;

  /// The model, or those parts of it that this rank runs.
  virtual std::vector<nn::Module*> modules() = 0;

  /// Attaches what the options say to `module`: the model, or a part of it. If that is on meta, its
  /// numbers are made by the recipe.
  std::unique_ptr<distributed::GradientPath> make_path(nn::Module& module, const Recipe* recipe,
                                                       const std::vector<int>& order = {});

  /// Whether a forward pass is a collective of all ranks, with samples or without.
  bool all_make_a_pass() const {
    return options_.layout.zero == 3 || options_.layout.spread_experts;
  }

  /// A sample of zeros, where there is none.
  static Tensor blank(const Tensor& inputs);

  /// The labels of this rank's places, in one row.
  Tensor own_labels(const Tensor& labels) const;
  /// What a batch counts for on this rank: its samples, or the part that it has of each.
  double weight_of(const data::Batch& batch) const;

  const TrainOptions& options_;
  Classifier& model_;
  const std::vector<std::string> names_;  // of the whole model's parameters
  const Axes& axes_;
  std::optional<distributed::TensorParallel> tensor_;
  std::optional<distributed::ContextParallel> context_;

 private:
  /// The names of what ranks of the data have other ones of.
  std::vector<std::string> spread_experts() const;

  std::vector<std::shared_ptr<distributed::BucketHook>> hooks_;  // or nulls, of each path
};

/// As the options say. `order`: of the gradients, from an earlier run. A collective; the strategy
/// refers to all it is given.
std::unique_ptr<Strategy> make_strategy(const TrainOptions& options, Task& task, const Axes& axes,
                                        const std::vector<int>& order);

}  // namespace capstan::models
