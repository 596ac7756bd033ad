// Defines the tape: Node (a recorded operation), Accumulator (where a leaf's gradient gathers), and
// the functions that say which tensors are on it.
//
// A tensor that requires a gradient points to the node that made it; a node points, through its
// edges, to the nodes that made its inputs. That graph is the tape; backward() in engine.h walks
// it. A leaf, a tensor that no operation made, points to an Accumulator, so walking ends there
// without special cases.
//
// Read next: record.h (how operations put themselves on the tape), engine.h.
#pragma once

#include <memory>
#include <span>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/hooks.h"
#include "core/tensor.h"

namespace capstan {

class Node;

/// Where the gradient of an operation's input goes: output `output` of the node that made the
/// input.
struct Edge {
  Ref<Node> node;  // null if the input needs no gradient
  int32_t output = 0;
};

/// Which inputs need a gradient in this pass: a formula may leave the others undefined.
class Wanted {
 public:
  /// All inputs that are on the tape; or, given `useful`, those made by a node in it.
  explicit Wanted(std::span<const Edge> edges,
                  const std::unordered_set<const Node*>* useful = nullptr)
      : edges_(edges), useful_(useful) {}
  bool operator[](int input) const {
    const Node* const node = edges_[input].node.get();
    return node && (!useful_ || useful_->contains(node));
  }

 private:
  std::span<const Edge> edges_;
  const std::unordered_set<const Node*>* useful_;
};

/// One operation on the tape.
class Node : public TapeNode {
 public:
  Node(const char* operation, int outputs);

  /// The operation's name, for messages.
  const char* operation() const { return operation_; }
  /// Rises with each node made in this process: a node is newer than its inputs.
  uint64_t sequence() const { return sequence_; }
  int outputs() const { return outputs_; }
  /// One edge an input, in the order of the operation's arguments.
  virtual std::span<const Edge> edges() const = 0;

  /// From the gradients of the outputs (undefined where none arrived) to those of the inputs, one
  /// an edge; undefined where it is not wanted, or 0.
  virtual void backward(std::span<const Tensor> grads, Wanted wanted,
                        std::span<Tensor> input_grads) = 0;
  /// Frees what was saved for backward.
  virtual void release() {}
  virtual bool is_leaf() const { return false; }
  Ref<TapeNode> place_of_view(const Tensor& base, const Layout& layout) const final;

  /// Where the operation was called, if that was inside a DetectAnomaly; else null.
  const CallSite* call_site() const { return call_site_.get(); }

  /// Hooks on the gradient of one output; each may replace the gradient by returning another.
  HookList<Tensor(const Tensor&)>& gradient_hooks(int output);
  /// The gradient after those hooks.
  Tensor run_gradient_hooks(int output, Tensor grad) const;

 protected:
  void destroy() final;

 private:
  const char* operation_;
  uint64_t sequence_;
  int32_t outputs_;
  std::unique_ptr<std::vector<HookList<Tensor(const Tensor&)>>>
      hooks_;  // made when first asked for
  std::unique_ptr<const CallSite> call_site_;
};

namespace detail {
/// The node whose backward runs on this thread, or null.
Node* running_node();
/// Makes `node` the running one while it lives.
class Running {
 public:
  explicit Running(Node* node);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Node* before_;
};

/// The elements of `value` as output `output` of `node`.
Tensor on_tape(const Tensor& value, Ref<Node> node, int output);
Edge edge_to(const Tensor& input);
[[noreturn]] void graph_was_freed(const char* operation);
}  // namespace detail

/// The end of the tape at one leaf: gathers the leaf's gradient.
///
/// The gradient may be given a place to live in (a slice of a communication bucket) with
/// place_grad(); it then stays there, and the first gradient after a zero_grad() is written over
/// the old values. A gradient that is itself on the tape (create_graph) cannot live in such a
/// place: that is a GradientError.
class Accumulator final : public Node {
 public:
  explicit Accumulator(const Tensor& leaf);

  bool is_leaf() const override { return true; }
  std::span<const Edge> edges() const override { return {}; }
  void backward(std::span<const Tensor> grads, Wanted wanted,
                std::span<Tensor> input_grads) override;
  const Tensor* gradient() const override { return has_grad_ ? &grad_ : nullptr; }

  /// Forgets the gradient; a placed one keeps its place.
  void zero_grad();
  /// Replaces the gradient by a copy of `grad`.
  void set_grad(const Tensor& grad);
  /// Moves the gradient into `place` (the leaf's shape, dtype and device; contiguous) and keeps it
  /// there.
  void place_grad(const Tensor& place);
  /// Gives the gradient memory of its own again.
  void unplace_grad();

  /// Run after each backward pass has added its whole gradient here, with the accumulated gradient.
  HookList<void(const Tensor&)> after_accumulation;

  /// Set while the gradient is one rank's share only: Optimizer::step() refuses it.
  bool unreduced = false;
  /// Set where the leaf is one rank's part of a parameter: what looks at a parameter as a whole
  /// refuses it (optim/check.h).
  bool part_of_whole = false;

 private:
  void check(const Tensor& grad) const;

  Shape shape_;
  Dtype dtype_;
  Device device_;
  Tensor grad_;  // defined if placed_ or has_grad_
  bool placed_ = false;
  bool has_grad_ = false;
};

/// True while operations on tensors that require gradients are recorded; one flag a thread.
bool grad_enabled();

/// Turns recording on this thread on or off while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// While it lives, nothing is recorded on this thread.
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/// Calls `f` with recording off and returns its result.
template <class F>
decltype(auto) no_grad(F&& f) {
  NoGrad guard;
  return std::forward<F>(f)();
}

/// Makes `tensor` a leaf whose gradient is accumulated, or takes it off the tape. Throws
/// GradientError for a result of a recorded operation (detach() it first), DtypeError for integers
/// and bool.
const Tensor& require_grad(const Tensor& tensor, bool required = true);

/// The same elements, off the tape.
Tensor detach(const Tensor& tensor);

/// The accumulator of a leaf. Throws GradientError for anything else.
Accumulator& accumulator(const Tensor& leaf);

/// Forgets the accumulated gradient of a leaf.
void zero_grad(const Tensor& leaf);

/// Calls `hook` with the whole gradient of `tensor` in every backward pass, before it is used
/// further. If the hook returns a tensor (of the same shape, dtype and device), that is used
/// instead. Throws GradientError off the tape.
HookHandle on_gradient(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook);
/// Calls `hook` with the accumulated gradient of a leaf once a backward pass has added to it.
HookHandle on_accumulation(const Tensor& leaf, std::function<void(const Tensor&)> hook);

}  // namespace capstan
