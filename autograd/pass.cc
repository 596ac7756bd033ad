// Implements Pass. Reading order: what is counted before a walk, then the walk.
#include "autograd/pass.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "core/raise.h"

namespace capstan::detail {
namespace {

/// Puts a seed on the tape, leading nowhere: with create_graph every gradient is then on the tape,
/// and one that is not has been made by a formula that was not recorded.
class SeedNode final : public Node {
 public:
  SeedNode() : Node("seed", 1) {}
  std::span<const Edge> edges() const override { return {}; }
  void backward(std::span<const Tensor>, Wanted, std::span<Tensor>) override {}
};

/// The gradients of the inputs are linear in those of the outputs: off the tape they are 0, or
/// something was not recorded.
void check_recorded(const Node& node, std::span<const Tensor> grads,
                    std::span<const Tensor> input_grads) {
  for (const Tensor& grad : grads) {
    if (grad.defined() && !grad.requires_grad()) return;  // a hook took it off the tape
  }
  for (const Tensor& grad : input_grads) {
    if (!grad.defined() || grad.requires_grad() || grad.device().kind == Device::Kind::meta) {
      continue;
    }
    if (any(grad).item<bool>()) {
      raise<GradientError>(
          "[{}] has no gradient of the gradient: its formula computes off the tape",
          node.operation());
    }
  }
}

void check_anomaly(const Node& node, std::span<const Tensor> grads,
                   std::span<const Tensor> input_grads) {
  const auto bad = [](const Tensor& grad) { return grad.defined() && has_anomaly(grad); };
  if (std::any_of(grads.begin(), grads.end(), bad)) return;
  for (size_t i = 0; i < input_grads.size(); ++i) {
    if (!bad(input_grads[i])) continue;
    raise<GradientError>(
        "[{}] its gradient of input {}, {} {}, holds {}, though that of its result does not{}",
        node.operation(), i, input_grads[i].dtype(), input_grads[i].shape(),
        watching->infinities() ? "NaN or infinities" : "NaN", to_string(node.call_site()));
  }
}

}  // namespace

void Pass::prepare() {
  if (selective()) find_useful();
  count_roots();
}

void Pass::prepare_rest() {
  find_rest();
  pending_.clear();
  leaves_.clear();
  count_roots();
  for (auto& [node, grads] : put_off_) {
    for (const Edge& edge : node->edges()) {
      if (leads_on(edge.node.get())) count_uses(edge.node.get());
    }
    pending_[node] = {.grads = std::move(grads), .resumed = true};
    ready_.emplace(node->sequence(), node);
  }
  put_off_.clear();
}

void Pass::count_roots() {
  for (const Root& root : roots_) {
    if (leads_on(node_of(root.tensor))) count_uses(node_of(root.tensor));
  }
}

// Finds the nodes from which a target can be reached. Nodes are newer than their inputs: going
// from old to new, each follows those that it depends on.
void Pass::find_useful() {
  std::vector<Node*> stack, found;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](Node* node) {
    if (node && seen.insert(node).second) stack.push_back(node);
  };
  for (const Root& root : roots_) visit(node_of(root.tensor));
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    found.push_back(node);
    for (const Edge& edge : node->edges()) visit(edge.node.get());
  }
  std::sort(found.begin(), found.end(),
            [](Node* a, Node* b) { return a->sequence() < b->sequence(); });
  for (const auto& [target, grad] : captured_) useful_.insert(target.first);
  for (Node* node : found) {
    const auto edges = node->edges();
    if (std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
          return edge.node && useful_.contains(edge.node.get());
        })) {
      useful_.insert(node);
    }
  }
}

// Puts those nodes into useful_ that can be reached and have led to no target.
void Pass::find_rest() {
  const std::unordered_set<const Node*> done = std::exchange(useful_, {});
  std::vector<Node*> stack;
  const auto visit = [&](Node* node) {
    if (node && !done.contains(node) && useful_.insert(node).second) stack.push_back(node);
  };
  for (const Root& root : roots_) visit(node_of(root.tensor));
  for (const auto& [node, grads] : put_off_) {
    for (const Edge& edge : node->edges()) visit(edge.node.get());
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges()) visit(edge.node.get());
  }
  aim_ = Aim::rest;
}

// Counts, for `start` and each node that it depends on, how many gradients will come.
void Pass::count_uses(Node* start) {
  std::vector<Node*> stack;
  const auto use = [&](Node* node) {
    const auto [entry, is_new] = pending_.try_emplace(node);
    ++entry->second.missing;
    if (is_new) stack.push_back(node);
  };
  use(start);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (node->is_leaf()) leaves_.push_back(static_cast<Accumulator*>(node));
    for (const Edge& edge : node->edges()) {
      if (leads_on(edge.node.get())) use(edge.node.get());
    }
  }
}

void Pass::run() {
  try {
    walk();
  } catch (...) {
    // What has run is freed; so is the rest, for nobody can run it. It may hold itself: a saved
    // tensor that was changed in place on the tape leads to the change.
    if (!retain_graph_) {
      for (auto& [node, _] : pending_) node->release();
    }
    throw;
  }
}

void Pass::walk() {
  GradMode recording(create_graph_);
  Autocast plain(std::nullopt);
  for (Root& root : roots_) {
    if (!leads_on(node_of(root.tensor))) continue;
    Tensor seed = std::move(root.seed);
    if (create_graph_ && !seed.requires_grad()) {
      seed = on_tape(seed, make_ref<SeedNode>(), 0);
    }
    deliver(*node_of(root.tensor), root.tensor.body().output, std::move(seed));
  }
  while (!ready_.empty()) {
    Node* node = ready_.top().second;
    ready_.pop();
    run_node(*node);
  }
}

// Hands one gradient (undefined: nothing to add) to an output of `node`.
void Pass::deliver(Node& node, int output, Tensor grad) {
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

void Pass::run_node(Node& node) {
  Pending& pending = pending_[&node];
  std::vector<Tensor> grads = std::move(pending.grads);
  const std::span<const Edge> edges = node.edges();
  const Wanted wanted(edges, useful());
  if (!grads.empty() && !pending.resumed) receive(node, grads);
  bool goes_on = aim_ == Aim::leaves || aim_ == Aim::rest, all = true;
  for (size_t i = 0; i < edges.size(); ++i) {
    goes_on = goes_on || wanted[i];
    all = all && (wanted[i] || !edges[i].node);
  }
  const bool comes_back = aim_ == Aim::targets_first && !all;
  if (comes_back) put_off_.emplace_back(&node, grads);
  std::vector<Tensor> input_grads(edges.size());
  // No gradients: nothing that depends on the root came this way.
  if (!grads.empty() && goes_on) run_formula(node, grads, wanted, input_grads, comes_back);
  for (size_t i = 0; i < edges.size(); ++i) {
    if (wanted[i]) deliver(*edges[i].node, edges[i].output, std::move(input_grads[i]));
  }
}

// What becomes of the gradients of a node's outputs before its formula sees them.
void Pass::receive(Node& node, std::vector<Tensor>& grads) {
  for (int i = 0; i < node.outputs(); ++i) {
    if (grads[i].defined()) grads[i] = node.run_gradient_hooks(i, std::move(grads[i]));
    if (captured_.empty()) continue;
    const auto target = captured_.find({&node, i});
    if (target != captured_.end()) target->second = grads[i];
  }
}

void Pass::run_formula(Node& node, std::vector<Tensor>& grads, Wanted wanted,
                       std::vector<Tensor>& input_grads, bool comes_back) {
  {
    Running running(&node);
    node.backward(grads, wanted, input_grads);
  }
  if (watching) check_anomaly(node, grads, input_grads);
  if (create_graph_) check_recorded(node, grads, input_grads);
  grads.clear();
  if (!retain_graph_ && !comes_back) node.release();
}

}  // namespace capstan::detail
