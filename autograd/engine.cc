#include "autograd/engine.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

thread_local HookList<void(const BackwardPass&)> start_hooks;
thread_local HookList<void()> end_hooks;

Node* node_of(const Tensor& tensor) { return static_cast<Node*>(tensor.node().get()); }

/// Puts a seed on the tape, leading nowhere: with create_graph every gradient is then on the tape,
/// and one that is not has been made by a formula that was not recorded.
class SeedNode final : public Node {
 public:
  SeedNode() : Node("seed", 1) {}
  std::span<const Edge> edges() const override { return {}; }
  void backward(std::span<const Tensor>, Wanted, std::span<Tensor>) override {}
};

/// What is known of one node during a walk.
struct Pending {
  int64_t missing = 0;        // uses of its outputs whose gradients have not come
  std::vector<Tensor> grads;  // sums so far, one an output; empty until the first comes
  bool resumed = false;       // it has run for some of its edges; the others are left
};

/// Where a walk goes.
enum class Aim : uint8_t {
  leaves,         // to all of them
  targets,        // only there
  targets_first,  // the same, but it remembers what it leaves out:
  rest            // to the leaves that are left
};

/// One walk over the tape, from its roots down.
class Pass {
 public:
  Pass(Aim aim, bool retain_graph, bool create_graph)
      : aim_(aim), retain_graph_(retain_graph || create_graph), create_graph_(create_graph) {}

  void add_root(const Tensor& root, const Tensor& seed) { roots_.push_back({root, seed}); }
  /// Asks for the gradient of `target`, which is not accumulated then.
  void add_target(const Tensor& target) { captured_[key(target)] = Tensor(); }

  /// Counts what each node will receive. Call it once, before run().
  void prepare() {
    if (selective()) find_useful();
    count_roots();
  }

  /// After a run() with targets first, in the place of prepare(): turns to what was put off, and to
  /// the roots that have been added since.
  void prepare_rest() {
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

  void count_roots() {
    for (const Root& root : roots_) {
      if (leads_on(node_of(root.tensor))) count_uses(node_of(root.tensor));
    }
  }
  const std::vector<Accumulator*>& leaves() const { return leaves_; }
  bool reaches(const Tensor& target) const { return pending_.contains(node_of(target)); }
  /// The gradient of a target after run(); undefined if none came.
  Tensor captured(const Tensor& target) const { return captured_.at(key(target)); }

  void run() {
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

 private:
  void walk() {
    GradMode recording(create_graph_);
    Autocast plain(std::nullopt);
    for (Root& root : roots_) {
      if (!leads_on(node_of(root.tensor))) continue;
      Tensor seed = std::move(root.seed);
      if (create_graph_ && !seed.requires_grad()) {
        seed = detail::on_tape(seed, make_ref<SeedNode>(), 0);
      }
      deliver(*node_of(root.tensor), root.tensor.body().output, std::move(seed));
    }
    while (!ready_.empty()) {
      Node* node = ready_.top().second;
      ready_.pop();
      run_node(*node);
    }
  }

  struct Root {
    Tensor tensor, seed;
  };
  using Key = std::pair<Node*, int32_t>;
  static Key key(const Tensor& tensor) { return {node_of(tensor), tensor.body().output}; }

  bool selective() const { return aim_ != Aim::leaves; }
  const std::unordered_set<const Node*>* useful() const { return selective() ? &useful_ : nullptr; }
  /// True unless a walk to targets has no business at `node`.
  bool leads_on(Node* node) const { return node && (!selective() || useful_.contains(node)); }

  /// Finds the nodes from which a target can be reached. Nodes are newer than their inputs: going
  /// from old to new, each follows those that it depends on.
  void find_useful() {
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

  /// Puts those nodes into useful_ that can be reached and have led to no target.
  void find_rest() {
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

  /// Counts, for `start` and each node that it depends on, how many gradients will come.
  void count_uses(Node* start) {
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

  /// What becomes of the gradients of a node's outputs before its formula sees them.
  void receive(Node& node, std::vector<Tensor>& grads) {
    for (int i = 0; i < node.outputs(); ++i) {
      if (grads[i].defined()) grads[i] = node.run_gradient_hooks(i, std::move(grads[i]));
      if (captured_.empty()) continue;
      const auto target = captured_.find({&node, i});
      if (target != captured_.end()) target->second = grads[i];
    }
  }

  void run_formula(Node& node, std::vector<Tensor>& grads, Wanted wanted,
                   std::vector<Tensor>& input_grads, bool comes_back) {
    {
      detail::Running running(&node);
      node.backward(grads, wanted, input_grads);
    }
    if (detail::watching) check_anomaly(node, grads, input_grads);
    if (create_graph_) check_recorded(node, grads, input_grads);
    grads.clear();
    if (!retain_graph_ && !comes_back) node.release();
  }

  /// The gradients of the inputs are linear in those of the outputs: off the tape they are 0, or
  /// something was not recorded.
  static void check_recorded(const Node& node, std::span<const Tensor> grads,
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

  static void check_anomaly(const Node& node, std::span<const Tensor> grads,
                            std::span<const Tensor> input_grads) {
    const auto bad = [](const Tensor& grad) { return grad.defined() && detail::has_anomaly(grad); };
    if (std::any_of(grads.begin(), grads.end(), bad)) return;
    for (size_t i = 0; i < input_grads.size(); ++i) {
      if (!bad(input_grads[i])) continue;
      raise<GradientError>(
          "[{}] its gradient of input {}, {} {}, holds {}, though that of its result does not{}",
          node.operation(), i, input_grads[i].dtype(), input_grads[i].shape(),
          detail::watching->infinities() ? "NaN or infinities" : "NaN",
          detail::to_string(node.call_site()));
    }
  }

  Aim aim_;
  bool retain_graph_, create_graph_;
  std::vector<Root> roots_;
  std::map<Key, Tensor> captured_;          // by target
  std::unordered_set<const Node*> useful_;  // where the walk goes, if not to all leaves
  std::vector<std::pair<Node*, std::vector<Tensor>>> put_off_;  // and the gradients they got
  std::unordered_map<Node*, Pending> pending_;                  // those that the roots depend on
  std::vector<Accumulator*> leaves_;
  std::priority_queue<std::pair<uint64_t, Node*>> ready_;  // the newest on top
};

/// `seed`, or 1 for a root of one element, after the checks of both.
Tensor seed_for(const char* walk, const Tensor& root, const Tensor& seed) {
  if (!root.requires_grad()) {
    raise<GradientError>(
        "[{}] the tensor of {} does not depend on anything that requires a gradient", walk,
        root.shape());
  }
  if (!seed.defined()) {
    if (root.numel() != 1) {
      raise<ShapeError>("[{}] a root of {} has more than one element: pass a seed", walk,
                        root.shape());
    }
    return full(root.shape(), 1, {root.dtype(), root.device()});
  }
  if (seed.shape() != root.shape() || seed.dtype() != root.dtype() ||
      !(seed.device() == root.device())) {
    raise<GradientError>("[{}] the seed must be like the root, {} {} on {}; got {} {} on {}", walk,
                         root.dtype(), root.shape(), root.device(), seed.dtype(), seed.shape(),
                         seed.device());
  }
  return seed;
}

/// The run of a pass that has been prepared, with the hooks around it.
void run_with_hooks(Pass& pass, bool create_graph = false) {
  GradMode recording(create_graph);
  start_hooks.for_each([&](const auto& hook) { hook(BackwardPass{pass.leaves()}); });
  pass.run();
  end_hooks.for_each([](const auto& hook) { hook(); });
}

void add_roots(Pass& pass, const char* walk, const std::vector<Tensor>& roots,
               const std::vector<Tensor>& seeds) {
  if (roots.size() != seeds.size()) {
    raise<ValueError>("[{}] needs a seed for each of {} roots, got {}", walk, roots.size(),
                      seeds.size());
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    pass.add_root(roots[i], seed_for(walk, roots[i], seeds[i]));
  }
}

}  // namespace

void backward(const Tensor& root, const BackwardOptions& options) {
  Pass pass(Aim::leaves, options.retain_graph, options.create_graph);
  pass.add_root(root, seed_for("backward", root, options.seed));
  pass.prepare();
  if (pass.leaves().empty()) {
    raise<GradientError>("[backward] the tensor of {} does not depend on any leaf", root.shape());
  }
  run_with_hooks(pass, options.create_graph);
}

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& seeds) {
  if (roots.empty()) raise<ValueError>("[backward] needs a root to begin at");
  Pass pass(Aim::leaves, false, false);
  add_roots(pass, "backward", roots, seeds);
  pass.prepare();
  run_with_hooks(pass);
}

class SplitBackward::Walk : public Pass {
 public:
  Walk() : Pass(Aim::targets_first, false, false) {}
};

SplitBackward::SplitBackward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const std::vector<Tensor>& inputs)
    : walk_(std::make_unique<Walk>()) {
  add_roots(*walk_, "split_backward", outputs, seeds);
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      raise<GradientError>("[split_backward] an input of {} does not require a gradient",
                           input.shape());
    }
    walk_->add_target(input);
  }
  walk_->prepare();
  walk_->run();
  for (const Tensor& input : inputs) {
    const Tensor gradient = walk_->captured(input);
    gradients_.push_back(gradient.defined() ? gradient : zeros_like(input));
  }
}

SplitBackward::~SplitBackward() = default;
SplitBackward::SplitBackward(SplitBackward&&) noexcept = default;
SplitBackward& SplitBackward::operator=(SplitBackward&&) noexcept = default;

void SplitBackward::finish(const std::vector<Tensor>& roots, const std::vector<Tensor>& seeds) {
  if (!walk_) raise<GradientError>("[split_backward] its second half has run");
  add_roots(*walk_, "split_backward", roots, seeds);
  for (const Tensor& root : roots) accumulator(root);  // throws unless it is a leaf
  const auto walk = std::move(walk_);
  walk->prepare_rest();
  run_with_hooks(*walk);
}

Tensor without_elements(const Tensor& tensor) {
  const Tensor one = empty({}, {tensor.dtype(), tensor.device()});
  const Tensor repeated = view_of(one, one.layout().expanded(tensor.shape()));
  return tensor.requires_grad()
             ? detail::on_tape(repeated, Ref<Node>(node_of(tensor)), tensor.body().output)
             : repeated;
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  if (!options.seeds.empty() && options.seeds.size() != outputs.size()) {
    raise<ValueError>("[grad] needs a seed for each of {} outputs, or none; got {}", outputs.size(),
                      options.seeds.size());
  }
  if (inputs.empty()) return {};
  Pass pass(Aim::targets, options.retain_graph, options.create_graph);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor seed = options.seeds.empty() ? Tensor() : options.seeds[i];
    pass.add_root(outputs[i], seed_for("grad", outputs[i], seed));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      raise<GradientError>("[grad] input {} of {} does not require a gradient", i,
                           inputs[i].shape());
    }
    pass.add_target(inputs[i]);
  }
  pass.prepare();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (options.unreached == Unreached::refuse && !pass.reaches(inputs[i])) {
      raise<GradientError>(
          "[grad] no output depends on input {} of {}; with Unreached::zeros its gradient is 0", i,
          inputs[i].shape());
    }
  }
  pass.run();
  std::vector<Tensor> grads;
  for (const Tensor& input : inputs) {
    grads.push_back(pass.captured(input));
    if (!grads.back().defined()) grads.back() = zeros_like(input);
  }
  return grads;
}

Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options) {
  return grad(std::vector{output}, std::vector{input}, options)[0];
}

HookHandle on_backward_start(std::function<void(const BackwardPass&)> hook) {
  return start_hooks.add(std::move(hook));
}

HookHandle on_backward_end(std::function<void()> hook) { return end_hooks.add(std::move(hook)); }

}  // namespace capstan
