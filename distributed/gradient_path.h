// Defines GradientPath: how the gradients of one rank become those of the whole job. Ddp (ddp.h)
// is one, sharded training (fsdp/) another; what runs a model, one process or a pipeline of them,
// does not need to know which.
//
//   path.backward(loss, weight);       // or several with Sync::no, and a last one that reduces
//   path.clip_grad_norm(1);            // of the whole model, wherever its parts are
//   optimizer.step(rate);              // of path.parameters()
//   path.after_step();
//   optimizer.zero_grad();
//
// A window is what one optimizer step sees: one backward pass, or several with Sync::no and a last
// one that reduces. Its gradient is exactly that of the weighted mean loss over all samples of all
// ranks.
#pragma once

#include <functional>
#include <vector>

#include "core/exact_sum.h"
#include "core/tensor.h"
#include "distributed/checkpoint/piece.h"

namespace capstan::distributed {

/// What a rank adds to a reduction beside its gradients.
struct Share {
  double weight = 0;  // of the samples summed in the gradients
  double loss = 0;    // the sum of their losses
};

/// How much of the communication was hidden behind backward.
struct Overlap {
  double communication = 0;  // seconds in which a bucket was under way
  double exposed = 0;        // seconds in which there was nothing to do but wait for it
  /// The hidden share, 0 to 1; 1 if there was no communication.
  double hidden() const;
};

/// Whether a backward pass ends its window.
enum class Sync { yes, no };

class GradientPath {
 public:
  virtual ~GradientPath() = default;

  /// What this rank's optimizer steps, in the model's order: the parameters that require gradients,
  /// or its shards of them.
  virtual const NamedTensors& parameters() const = 0;
  /// What this rank holds of the parameters that it steps or shares out, under the model's names:
  /// all of each, a range, or no element. First parameters(), in their order; then frozen ones that
  /// ranks share out. A frozen parameter that is not among them is whole on every rank.
  virtual Pieces pieces() const { return whole(parameters()); }

  /// Runs backward from a loss that is the mean over `weight` samples or tokens. With Sync::yes the
  /// gradients of the window are those of all ranks when this returns. Throws ValueError for a
  /// weight that is not a number above 0; and as pass() does.
  void backward(const Tensor& loss, double weight = 1, Sync sync = Sync::yes);
  void backward(const Tensor& loss, Sync sync) { backward(loss, 1, sync); }

  /// The same for a backward pass that does not begin at a loss, a pipeline stage's say: `run`
  /// makes it, in one walk over the tape that reaches parameters, and leaves sums over share.weight
  /// samples, not their mean.
  virtual void pass(const std::function<void()>& run, const Share& share, Sync sync) = 0;

  /// Takes the place of a backward pass on a rank that has no (more) samples for it: takes part
  /// with weight 0.
  virtual void backward_without_data(Sync sync = Sync::yes) = 0;

  /// The sum of the squares of all that the ranks of this path train, each element once. A
  /// collective where ranks hold different parts of the model.
  virtual ExactSum squares_of_gradients() = 0;
  /// Scales the gradients so that their norm is at most `limit`; see optim/clip.h. Returns the norm
  /// before. A collective, likewise.
  virtual double clip_grad_norm(double limit) = 0;

  /// Between these two calls passes may take turns: forward of a second microbatch, say, before
  /// backward of the first. Where weights come for a pass and go, they stay from here on; hold()
  /// begins to fetch them, and any of them is there from its first use on, or when wait_for()
  /// returns. Collectives, all three.
  virtual void hold() {}
  virtual void wait_for(const Tensor&) {}
  virtual void let_go() {}

  /// Follows every step of the optimizer: ranks that stepped different parts share the outcome.
  virtual void after_step() {}

  /// The sums over all ranks of the last window that was reduced.
  virtual Share last() const = 0;
  /// Its weighted mean loss and its weight.
  double loss() const { return last().weight > 0 ? last().loss / last().weight : 0; }
  double weight() const { return last().weight; }

  /// The order in which the gradients become ready, as numbers of parameters(); empty until the
  /// first window has shown it, or where nothing depends on it.
  virtual std::vector<int> order() const { return {}; }
  /// Sums over all windows so far.
  virtual const Overlap& overlap() const = 0;
};

}  // namespace capstan::distributed
