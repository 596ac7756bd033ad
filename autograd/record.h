// Defines record(), with which an operation puts itself on the tape. What it keeps for later is a
// Saved (saved.h).
//
// An operation computes its result and passes the formula of its gradient along, so that forward
// and backward stand side by side:
//
//   Tensor multiply(const Tensor& a, const Tensor& b) {
//     return record("multiply", product_of(a, b), inputs(a, b),
//                   [a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
//                     return gradients(wanted[0] ? multiply(grad, b.get()) : Tensor(),
//                                      wanted[1] ? multiply(grad, a.get()) : Tensor());
//                   });
//   }
#pragma once

#include <array>
#include <optional>

#include "autograd/node.h"
#include "autograd/saved.h"

namespace capstan {

namespace detail {
inline const Tensor* address(const Tensor& input) { return &input; }
inline const Tensor* address(const Tensor* input) { return input; }
}  // namespace detail

/// The inputs of an operation. One that may be absent is given by pointer; null needs no gradient.
template <class... Tensors>
std::array<const Tensor*, sizeof...(Tensors)> inputs(const Tensors&... tensors) {
  return {detail::address(tensors)...};
}
template <class... Tensors>
std::array<Tensor, sizeof...(Tensors)> gradients(Tensors&&... tensors) {
  return {std::forward<Tensors>(tensors)...};
}

namespace detail {

/// A node whose backward is a function object, kept inside it. `Edges` is an array, or a vector
/// where the operation takes a list of tensors.
template <class Edges, class Formula>
class FormulaNode final : public Node {
 public:
  FormulaNode(const char* operation, Edges edges, Formula formula)
      : Node(operation, 1), edges_(std::move(edges)), formula_(std::move(formula)) {}
  std::span<const Edge> edges() const override { return edges_; }
  void release() override { formula_.reset(); }
  void backward(std::span<const Tensor> grads, Wanted wanted,
                std::span<Tensor> input_grads) override {
    if (!formula_) graph_was_freed(operation());
    const auto deliver = [&](auto results) {
      std::move(results.begin(), results.end(), input_grads.begin());
    };
    if constexpr (std::is_invocable_v<Formula&, const Tensor&, Wanted>) {
      deliver((*formula_)(grads[0], wanted));
    } else {
      deliver((*formula_)(grads[0]));
    }
  }

 private:
  Edges edges_;
  std::optional<Formula> formula_;
};

/// Gives the result of an operation its place on the tape.
inline void place(const Tensor& result, Ref<Node> node) {
  TensorBody& body = result.body();
  body.node = std::move(node);
  body.seen_writes = body.storage->recorded_writes();
}

}  // namespace detail

/// True if an operation on these inputs (pointers to tensors, null for an absent one) must be
/// recorded.
template <class Inputs>
bool must_record(const Inputs& inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor* input : inputs) {
    if (input && input->requires_grad()) return true;
  }
  return false;
}

/// Puts `operation`, which made `result` from `inputs`, on the tape if recording is on and an input
/// requires a gradient, and returns `result`. `formula` maps the gradient of the result to those of
/// the inputs: (const Tensor& grad[, Wanted]) -> std::array<Tensor, N>, each of its input's shape
/// and dtype. Inside a DetectAnomaly a result with NaN is an error.
template <size_t N, class Formula>
Tensor record(const char* operation, Tensor result, const std::array<const Tensor*, N>& inputs,
              Formula formula) {
  if (detail::watching) detail::check_result(operation, result, inputs);
  if (must_record(inputs)) {
    std::array<Edge, N> edges;
    for (size_t i = 0; i < N; ++i) {
      if (inputs[i]) edges[i] = detail::edge_to(*inputs[i]);
    }
    detail::place(result, make_ref<detail::FormulaNode<std::array<Edge, N>, Formula>>(
                              operation, std::move(edges), std::move(formula)));
  }
  return result;
}

/// The same for a list of inputs; `formula` returns a vector of their gradients.
template <class Formula>
Tensor record(const char* operation, Tensor result, const std::vector<const Tensor*>& inputs,
              Formula formula) {
  if (detail::watching) detail::check_result(operation, result, inputs);
  if (must_record(inputs)) {
    std::vector<Edge> edges;
    for (const Tensor* input : inputs) edges.push_back(detail::edge_to(*input));
    detail::place(result, make_ref<detail::FormulaNode<std::vector<Edge>, Formula>>(
                              operation, std::move(edges), std::move(formula)));
  }
  return result;
}

}  // namespace capstan
