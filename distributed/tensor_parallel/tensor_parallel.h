// Defines TensorParallel, which shares the work inside a model's layers out among ranks, by a plan.
//
// A model is written once, for one rank. A plan says which of its modules are cut, and how:
//
//   const TensorPlan plan{{{"tokens", Cut::vocabulary},
//                          {"blocks.*.attention", Cut::heads},
//                          {"blocks.*.feed_forward", Cut::feed_forward},
//                          {"head", Cut::vocabulary}}};
//   Gpt model(shape);                              // the same on all ranks
//   TensorParallel parallel(model, plan, ranks);   // now each has its slices
//   backward(parallel.cross_entropy("head", model(tokens), targets));
//
// Parameters that are cut become this rank's slice, under their own names, and hooks on the modules
// send what has to be sent; door.h explains what that is, and why. The model's source knows
// nothing of it, nor does Ddp, which is made over the ranks that have the same slices, nor do
// optimizers: but those that look at tensors as a whole refuse slices (optim/check.h).
//
// A model that fits on no rank is recorded on meta (core/recipe.h) and cut there: a slice then
// knows that it is to be made and cut out, one parameter after the other, when its numbers are
// wanted (nn/materialize.h, or Fsdp), and they are one rank's to the last bit.
//
// Gradients. Of a parameter that is cut each rank has the gradient of its slice. Other parameters
// have the same gradient on all ranks, to the bit, and stay equal: nothing is sent. Only what is
// used on a part of the sequence (a norm's weight, the bias after a scatter) has a part of its
// gradient on each rank; a hook adds these up when backward completes them, once.
//
// Random numbers. A model starts with the same numbers on any number of ranks: it is made whole,
// from one seed, and then cut. Dropout drops what it would on one rank: Dropout layers and
// attention are told which part of a tensor they get (core/part.h), draw its numbers out of those
// of the whole, and leave the generator where one rank would. (Rules that name single Linear layers
// cannot tell where a region ends, and dropout() that a module calls itself is told nothing: there
// the ranks drop alike what they have of the same shape.)
#pragma once

#include "autograd/softmax.h"
#include "distributed/checkpoint/piece.h"
#include "distributed/tensor_parallel/cutting.h"

namespace capstan::distributed {

class TensorParallel {
 public:
  /// Copies rank 0's numbers to the other ranks, cuts the model and adds its hooks; with one rank
  /// the model stays as it is. To be done before an optimizer or another strategy is attached, as
  /// parameters are replaced. Model and ranks must outlive this, and this all calls of the model.
  /// Throws on every rank, before anything is changed: SharedError if the ranks' plans or models
  /// differ; ValueError for a pattern that fits no module, a module that fits two rules or is of
  /// another type than its rule is for, sizes that cannot be cut so, a tied parameter that would
  /// not be cut alike under all its names, and rules that exclude each other.
  ///
  /// `recipe`: of a model on meta, which stays there; that of the slices is added to it.
  /// SharedError as agree_on() does.
  TensorParallel(nn::Module& model, const TensorPlan& plan, Communicator& ranks,
                 Recipe* recipe = nullptr);
  TensorParallel(const TensorParallel&) = delete;
  TensorParallel& operator=(const TensorParallel&) = delete;

  Communicator& ranks() const { return ranks_; }

  /// What this rank has of a parameter. Throws ValueError for one that the model does not have.
  const ParameterSlice& slice(const std::string& parameter) const;

  // Lists of tensors that are named as parameters, or "<parameter>.<quantity>" as an optimizer's
  // state. A quantity of its parameter's shape is cut as that is, one of a single element is equal
  // on all ranks. Anything else throws ShapeError, and another name ValueError.

  /// Those that this rank counts where each element of the whole model counts once: what is cut,
  /// and on rank 0 the rest.
  NamedTensors counted(const NamedTensors& tensors) const;
  /// This rank's slices of whole tensors.
  NamedTensors cut(const NamedTensors& whole) const;
  /// Whole tensors, on every rank, from the slices of all. A collective.
  NamedTensors whole(const NamedTensors& slices) const;

  /// What `mine`, pieces of this rank's slices, are of whole tensors: whole(model.parameters()) for
  /// checkpoints of this rank's part, or the shards that Fsdp makes of slices. Throws as above, and
  /// ShapeError for a piece of a slice that is not all of it or a range of its elements.
  Pieces pieces(const Pieces& mine) const;

  // Of logits that came from `head`, a Linear cut by vocabulary. Both throw ValueError for another
  // module.

  /// All of them, on every rank: for evaluation, or to write text. A collective.
  Tensor joined(const std::string& head, const Tensor& logits) const;
  /// The loss, without joining them; see vocabulary.h.
  Tensor cross_entropy(const std::string& head, const Tensor& logits, const Tensor& targets,
                       LossReduction reduction = LossReduction::mean) const;

 private:
  int64_t classes_of(const std::string& head) const;
  ParameterSlice slice_of_shape(const std::string& name, const Shape& shape, bool is_whole) const;

  Communicator& ranks_;
  std::map<std::string, ParameterSlice> slices_;  // by parameter
  std::map<std::string, int64_t> classes_;        // by Linear whose logits are cut
  std::vector<HookHandle> hooks_;
};

}  // namespace capstan::distributed
