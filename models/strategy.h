// Defines Strategy: how a model and the work of a step are spread over the ranks. The training loop
// (train.cc) is the same for all.
#pragma once

#include <memory>
#include <optional>

#include "core/random.h"
#include "data/loader.h"
#include "distributed/checkpoint/load.h"
#include "distributed/gradient_path.h"
#include "models/classifier.h"
#include "models/evaluate.h"
#include "models/train_options.h"

namespace capstan::models {

class Strategy {
 public:
  virtual ~Strategy() = default;

  /// How this rank's gradients become those of all.
  virtual distributed::GradientPath& path() = 0;

  /// Runs forward and backward over this rank's next `count` batches, those of one step, of which
  /// some may be empty; afterwards the gradients are those of the whole step. `dropout.fork(i)` is
  /// the randomness of batch number i of the step. Returns what the model made of the batches, but
  /// for the loss; nothing on a rank that does not know. A collective.
  virtual Evaluation accumulate(data::Epoch& batches, int64_t count, const Generator& dropout) = 0;

  /// A forward pass of the model as it is evaluated: its logits on one of the ranks that hold a
  /// copy together, nothing on the others. A collective of these ranks.
  virtual std::optional<Tensor> logits(const Tensor& inputs) = 0;

  /// SHA-256 of the whole model, as weights_sha256() of one rank's; the same on all ranks. A
  /// collective.
  virtual std::string weights_sha256() = 0;

  /// What the strategy itself keeps from step to step, for checkpoints; nothing, most often.
  virtual distributed::Groups state() { return {}; }
  /// Takes that from a checkpoint, before the first step. A collective; throws as
  /// distributed::load() does.
  virtual void load_state(const std::string& /*folder*/, const distributed::Manifest&) {}
};

/// As the options say. `order`: of the gradients, from an earlier run. A collective; the strategy
/// refers to all it is given.
std::unique_ptr<Strategy> make_strategy(const TrainOptions& options, Classifier& model,
                                        distributed::Communicator& communicator,
                                        const std::vector<int>& order);

}  // namespace capstan::models
