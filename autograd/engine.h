// Defines backward(), the walk over the tape, and the hooks around it.
//
// Backward keeps the nodes whose outputs' gradients are complete and always runs the newest of
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
};

/// Adds the gradient of `root` to every leaf that it depends on. Throws GradientError if `root` is
/// off the tape, the tape was freed, or the seed is not like the root; ShapeError if it needs one.
void backward(const Tensor& root, const BackwardOptions& options = {});

/// What a backward pass is about to do.
struct BackwardPass {
  std::span<Accumulator* const> leaves;  // those that will receive a gradient
};

/// Runs `hook` when a backward pass on this thread starts, before the first node.
HookHandle on_backward_start(std::function<void(const BackwardPass&)> hook);
/// Runs `hook` when a backward pass on this thread has ended well.
HookHandle on_backward_end(std::function<void()> hook);

}  // namespace capstan
