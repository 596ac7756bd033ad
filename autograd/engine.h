// Defines backward() and grad(), the walks over the tape, and the hooks around backward().
//
// A walk keeps the nodes whose outputs' gradients are complete and always runs the newest of
// them; a leaf runs the moment its gradient is complete. Newest-first means that the order of an
// operation's arguments cannot delay a gradient, which is what lets communication start early.
// There is no recursion: a tape of a million operations needs no more stack than one of two.
#pragma once

#include <memory>
#include <vector>

#include "autograd/node.h"

namespace capstan {

struct BackwardOptions {
  /// Gradient of the root; may be left undefined for a root of one element, and is 1 then.
  Tensor seed = {};
  /// Keeps what was saved, so that backward may run again over the same tape.
  bool retain_graph = false;
  /// Records the backward pass too, so that the gradients can be differentiated; keeps what was
  /// saved. The gradient in a leaf then holds a tape that holds the leaf: call zero_grad(), or both
  /// stay for ever. grad() has no such circle.
  bool create_graph = false;
};

/// Adds the gradient of `root` to every leaf that it depends on. Throws GradientError if `root` is
/// off the tape, the tape was freed, or the seed is not like the root; ShapeError if it needs one.
void backward(const Tensor& root, const BackwardOptions& options = {});

/// The same from several roots at once, each with its seed, in one walk: from the outputs of a part
/// of a model, whose gradients another part has computed. A leaf may be a root: its seed is added
/// to its gradient before what other roots bring. A root's elements are not looked at. Throws as
/// above, and ValueError for no root or another number of seeds.
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& seeds);

/// What grad() gives for an input that no output depends on.
enum class Unreached { refuse, zeros };

struct GradOptions {
  /// Gradients of the outputs, in their order; none for outputs of one element, which get 1.
  std::vector<Tensor> seeds = {};
  bool retain_graph = false;
  /// As in BackwardOptions: every gradient is on the tape then.
  bool create_graph = false;
  Unreached unreached = Unreached::refuse;
};

/// The gradients of the sum of `outputs`, weighted by the seeds, by each of `inputs`: leaves or
/// results of operations. No leaf accumulates anything and only what lies between is computed;
/// hooks on gradients run, those around backward() do not. Throws as backward() does, and
/// GradientError for an input that is off the tape, or that is not reached if that is refused.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});
/// The same for one output and one input.
Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options = {});

/// Backward in two halves (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241,
/// section 2): first the gradients of some inputs, for which somebody is waiting, later those of
/// all other leaves, which take about as long again.
///
/// The first half runs what leads from the outputs to the inputs, each formula for those of its
/// arguments only, and keeps the gradients that came to operations with other arguments (a product
/// with a weight). The second half goes on from there: nothing is computed twice, except what a
/// formula shares between the gradients of its arguments, and each number has the bits of one whole
/// backward pass.
class SplitBackward {
 public:
  /// Runs the first half. `outputs` and `seeds` as in backward(); `inputs` as in grad(), leaves or
  /// results; one that no output depends on gets zeros. Hooks on gradients run, those around
  /// backward() do not. Throws as those do.
  SplitBackward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                const std::vector<Tensor>& inputs);
  ~SplitBackward();
  SplitBackward(SplitBackward&&) noexcept;
  SplitBackward& operator=(SplitBackward&&) noexcept;

  /// Of the inputs, in their order; the caller may take them away.
  std::vector<Tensor>& gradients() { return gradients_; }

  /// Runs the second half, with all its hooks, and frees the tape: adds the gradients of all leaves
  /// that the outputs depend on to them, but for those that were inputs. `roots` and `seeds`: more
  /// of them. Once only.
  void finish(const std::vector<Tensor>& roots = {}, const std::vector<Tensor>& seeds = {});

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
  std::vector<Tensor> gradients_;
};

/// A handle of the same shape and place on the tape, for backward to begin at, that keeps no
/// elements: what was computed from them may go.
Tensor without_elements(const Tensor& tensor);

/// What a backward pass is about to do.
struct BackwardPass {
  std::span<Accumulator* const> leaves;  // those that will receive a gradient
};

/// Runs `hook` when a backward pass on this thread starts, before the first node.
HookHandle on_backward_start(std::function<void(const BackwardPass&)> hook);
/// Runs `hook` when a backward pass on this thread has ended well.
HookHandle on_backward_end(std::function<void()> hook);

}  // namespace capstan
