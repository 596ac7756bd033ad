// Defines Pass, one walk over the tape, from its roots down: the engine behind engine.h.
//
// A walk first counts how many gradients each node will get, then runs whichever node has all of
// them and is the newest, leaves at once. It goes to all leaves; or only where it leads to targets,
// and may then go on where it did not.
#pragma once

#include <map>
#include <queue>
#include <unordered_map>

#include "autograd/node.h"

namespace capstan::detail {

/// Where a walk goes.
enum class Aim : uint8_t {
  leaves,         // to all of them
  targets,        // only there
  targets_first,  // the same, but it remembers what it leaves out:
  rest            // to the leaves that are left
};

class Pass {
 public:
  Pass(Aim aim, bool retain_graph, bool create_graph)
      : aim_(aim), retain_graph_(retain_graph || create_graph), create_graph_(create_graph) {}

  void add_root(const Tensor& root, const Tensor& seed) { roots_.push_back({root, seed}); }
  /// Asks for the gradient of `target`, which is not accumulated then.
  void add_target(const Tensor& target) { captured_[key(target)] = Tensor(); }

  /// Counts what each node will receive. Call it once, before run().
  void prepare();
  /// After a run() with targets first, in the place of prepare(): turns to what was put off, and to
  /// the roots that have been added since.
  void prepare_rest();
  void run();

  const std::vector<Accumulator*>& leaves() const { return leaves_; }
  bool reaches(const Tensor& target) const { return pending_.contains(node_of(target)); }
  /// The gradient of a target after run(); undefined if none came.
  Tensor captured(const Tensor& target) const { return captured_.at(key(target)); }
  void forget_captured() { captured_.clear(); }

 private:
  struct Root {
    Tensor tensor, seed;
  };
  /// What is known of one node during a walk.
  struct Pending {
    int64_t missing = 0;             // uses of its outputs whose gradients have not come
    std::vector<Tensor> grads = {};  // sums so far, one an output; empty until the first comes
    bool resumed = false;            // it has run for some of its edges; the others are left
  };
  using Key = std::pair<Node*, int32_t>;

  static Node* node_of(const Tensor& tensor) { return static_cast<Node*>(tensor.node().get()); }
  static Key key(const Tensor& tensor) { return {node_of(tensor), tensor.body().output}; }

  bool selective() const { return aim_ != Aim::leaves; }
  const std::unordered_set<const Node*>* useful() const { return selective() ? &useful_ : nullptr; }
  /// True unless the walk has no business at `node`.
  bool leads_on(Node* node) const { return node && (!selective() || useful_.contains(node)); }

  void find_useful();
  void find_rest();
  void count_roots();
  void count_uses(Node* start);
  void walk();
  void deliver(Node& node, int output, Tensor grad);
  void run_node(Node& node);
  void receive(Node& node, std::vector<Tensor>& grads);
  void run_formula(Node& node, std::vector<Tensor>& grads, Wanted wanted,
                   std::vector<Tensor>& input_grads, bool comes_back);

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

}  // namespace capstan::detail
