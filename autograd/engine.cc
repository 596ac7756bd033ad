#include "autograd/engine.h"

#include <queue>
#include <unordered_map>

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "core/raise.h"

namespace capstan {

namespace {

thread_local HookList<void(const BackwardPass&)> start_hooks;
thread_local HookList<void()> end_hooks;
thread_local Node* running = nullptr;

/// Restores a thread-local when a scope ends, also by an exception.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Restore() { variable_ = before_; }

 private:
  T& variable_;
  T before_;
};

/// What is known of one node during a backward pass.
struct Pending {
  int64_t missing = 0;        // uses of its outputs whose gradients have not come
  std::vector<Tensor> grads;  // sums so far, one an output; empty until the first comes
};

class Pass {
 public:
  explicit Pass(bool retain_graph) : retain_graph_(retain_graph) {}

  void run(const Tensor& root, Tensor seed) {
    Node* start = static_cast<Node*>(root.body().node.get());
    count_uses(start);
    start_hooks.for_each([&](const auto& hook) { hook(BackwardPass{leaves_}); });
    pending_[start].missing = 1;
    deliver(*start, root.body().output, std::move(seed));
    while (!ready_.empty()) {
      Node* node = ready_.top().second;
      ready_.pop();
      run_node(*node);
    }
    end_hooks.for_each([](const auto& hook) { hook(); });
  }

 private:
  /// Counts, for each node that `start` depends on, how many gradients it will receive.
  void count_uses(Node* start) {
    std::vector<Node*> stack{start};
    pending_.try_emplace(start);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (node->is_leaf()) leaves_.push_back(static_cast<Accumulator*>(node));
      for (const Edge& edge : node->edges()) {
        if (!edge.node) continue;
        const auto [entry, is_new] = pending_.try_emplace(edge.node.get());
        ++entry->second.missing;
        if (is_new) stack.push_back(edge.node.get());
      }
    }
  }

  /// Hands one gradient (undefined: nothing to add) to an output of `node`.
  void deliver(Node& node, int output, Tensor grad) {
    Pending& pending = pending_[&node];
    if (grad.defined()) {
      if (pending.grads.empty()) pending.grads.resize(node.outputs());
      Tensor& sum = pending.grads[output];
      sum = sum.defined() ? add(sum, grad) : std::move(grad);
    }
    if (--pending.missing > 0) return;
    if (node.is_leaf()) {
      run_node(node);
    } else {
      ready_.emplace(node.sequence(), &node);
    }
  }

  void run_node(Node& node) {
    std::vector<Tensor> grads = std::move(pending_[&node].grads);
    const std::span<const Edge> edges = node.edges();
    std::vector<Tensor> input_grads(edges.size());
    if (!grads.empty()) {  // else nothing that depends on the root came this way
      for (int i = 0; i < node.outputs(); ++i) {
        if (grads[i].defined()) grads[i] = node.run_gradient_hooks(i, std::move(grads[i]));
      }
      Restore<Node*> restore(running, &node);
      node.backward(grads, input_grads);
      grads.clear();
      if (!retain_graph_) node.release();
    }
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges[i].node) deliver(*edges[i].node, edges[i].output, std::move(input_grads[i]));
    }
  }

  bool retain_graph_;
  std::unordered_map<Node*, Pending> pending_;
  std::vector<Accumulator*> leaves_;
  std::priority_queue<std::pair<uint64_t, Node*>> ready_;  // the newest on top
};

}  // namespace

namespace detail {
void graph_was_freed(const char* operation) {
  raise<GradientError>(
      "[{}] what it saved was freed by an earlier backward pass; pass retain_graph to the earlier "
      "one",
      operation);
}

Edge edge_to(const Tensor& input) {
  const TensorBody& body = input.body();
  return {Ref<Node>(static_cast<Node*>(body.node.get())), body.output};
}
}  // namespace detail

void backward(const Tensor& root, const BackwardOptions& options) {
  if (!root.requires_grad()) {
    raise<GradientError>(
        "[backward] the tensor of {} does not depend on anything that requires a gradient",
        root.shape());
  }
  Tensor seed = options.seed;
  if (!seed.defined()) {
    if (root.numel() != 1) {
      raise<ShapeError>("[backward] a root of {} has more than one element: pass a seed",
                        root.shape());
    }
    seed = full(root.shape(), 1, {root.dtype(), root.device()});
  } else if (seed.shape() != root.shape() || seed.dtype() != root.dtype() ||
             !(seed.device() == root.device())) {
    raise<GradientError>("[backward] the seed must be like the root, {} {} on {}; got {} {} on {}",
                         root.dtype(), root.shape(), root.device(), seed.dtype(), seed.shape(),
                         seed.device());
  }
  NoGrad guard;
  Pass(options.retain_graph).run(root, std::move(seed));
}

HookHandle on_backward_start(std::function<void(const BackwardPass&)> hook) {
  return start_hooks.add(std::move(hook));
}

HookHandle on_backward_end(std::function<void()> hook) { return end_hooks.add(std::move(hook)); }

Tensor Saved::get() const {
  if (tensor_.version() != version_) {
    raise<GradientError>(
        "[{}] a value of {} saved for backward was changed in place (version {}, saved at {}); "
        "clone() it "
        "before the change",
        running ? running->operation() : "saved", tensor_.shape(), tensor_.version(), version_);
  }
  return tensor_;
}

}  // namespace capstan
