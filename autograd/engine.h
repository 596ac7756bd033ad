// Defines backward() and grad(), the walks over the tape, and the hooks around backward().
//
// A walk keeps the nodes whose outputs' gradients are complete and always runs the newest of
// them; a leaf runs the moment its gradient is complete. Newest-first means that the order of an
// operation's arguments cannot delay a gradient, which is what lets communication start early.
// There is no recursion: a tape of a million operations needs no more stack than one of two.
#pragma once

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

/// What a backward pass is about to do.
struct BackwardPass {
  std::span<Accumulator* const> leaves;  // those that will receive a gradient
};

/// Runs `hook` when a backward pass on this thread starts, before the first node.
HookHandle on_backward_start(std::function<void(const BackwardPass&)> hook);
/// Runs `hook` when a backward pass on this thread has ended well.
HookHandle on_backward_end(std::function<void()> hook);

}  // namespace capstan
