#include "autograd/node.h"

#include <atomic>

#include "autograd/arithmetic.h"
#include "autograd/parts.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

std::atomic<uint64_t> next_sequence{1};
thread_local bool recording = true;
thread_local Node* running = nullptr;

Node* node_of(const Tensor& tensor) { return static_cast<Node*>(tensor.node().get()); }

/// Adds into `sum`, which nobody else may be looking at.
void add_into(const Tensor& sum, const Tensor& term) {
  backend(sum).binary(Binary::add, sum, term, sum);
}

}  // namespace

Node::Node(const char* operation, int outputs)
    : operation_(operation),
      sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      outputs_(outputs) {
  if (detail::watching) call_site_ = detail::current_call_site();
}

HookList<Tensor(const Tensor&)>& Node::gradient_hooks(int output) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<HookList<Tensor(const Tensor&)>>>(outputs_);
  return (*hooks_)[output];
}

Tensor Node::run_gradient_hooks(int output, Tensor grad) const {
  if (!hooks_) return grad;
  (*hooks_)[output].for_each([&](const auto& hook) {
    if (Tensor replaced = hook(grad); replaced.defined()) {
      if (replaced.shape() != grad.shape() || replaced.dtype() != grad.dtype() ||
          !(replaced.device() == grad.device())) {
        raise<GradientError>("[{}] a gradient hook must keep {} {} on {}, returned {} {} on {}",
                             operation_, grad.dtype(), grad.shape(), grad.device(),
                             replaced.dtype(), replaced.shape(), replaced.device());
      }
      grad = std::move(replaced);
    }
  });
  return grad;
}

Ref<TapeNode> Node::place_of_view(const Tensor& base, const Layout& layout) const {
  GradMode recording(true);
  return part_at(base, layout).node();
}

void Node::destroy() {
  // A long tape is a long chain of nodes, each holding the last reference to the next: destroying
  // them one inside the other would overflow the stack. Nodes queue here instead.
  // (The queue is local: a thread_local one would be gone before the tensors of a static model.)
  thread_local std::vector<Node*>* queue = nullptr;
  if (queue) return queue->push_back(this);
  std::vector<Node*> doomed{this};
  queue = &doomed;
  while (!doomed.empty()) {
    Node* node = doomed.back();
    doomed.pop_back();
    delete node;
  }
  queue = nullptr;
}

namespace detail {
Node* running_node() { return running; }
Running::Running(Node* node) : before_(std::exchange(running, node)) {}
Running::~Running() { running = before_; }

Tensor on_tape(const Tensor& value, Ref<Node> node, int output) {
  const Tensor out = detach(value);
  out.body().node = std::move(node);
  out.body().output = output;
  out.body().seen_writes = out.storage().recorded_writes();
  return out;
}

void graph_was_freed(const char* operation) {
  raise<GradientError>(
      "[{}] what it saved was freed by an earlier backward pass; pass retain_graph to the earlier "
      "one",
      operation);
}

Edge edge_to(const Tensor& input) { return {Ref<Node>(node_of(input)), input.body().output}; }
}  // namespace detail

Accumulator::Accumulator(const Tensor& leaf)
    : Node("leaf", 1), shape_(leaf.shape()), dtype_(leaf.dtype()), device_(leaf.device()) {}

void Accumulator::check(const Tensor& grad) const {
  if (grad.shape() != shape_ || grad.dtype() != dtype_ || !(grad.device() == device_)) {
    raise<GradientError>("[gradient] a leaf of {} {} on {} cannot take a gradient of {} {} on {}",
                         dtype_, shape_, device_, grad.dtype(), grad.shape(), grad.device());
  }
}

void Accumulator::backward(std::span<const Tensor> grads, Wanted, std::span<Tensor>) {
  const Tensor& grad = grads[0];
  check(grad);
  const bool has_graph = grad.requires_grad() || (has_grad_ && grad_.requires_grad());
  if (has_graph && placed_) {
    raise<GradientError>(
        "[gradient] a gradient of {} that lives in a bucket cannot be on the tape: take it with "
        "grad() instead of backward()",
        shape_);
  }
  // The first gradient is kept as it is if it is dense and the engine alone holds it.
  const bool ours = grad.body().references() == 1 && grad.storage().references() == 1;
  if (has_graph) {  // what is on the tape is never changed in place
    grad_ = has_grad_ ? add(grad_, grad) : grad;
    has_grad_ = true;
  } else if (has_grad_) {
    add_into(grad_, grad);
  } else if (!placed_ && ours && grad.is_contiguous()) {
    grad_ = grad;
    has_grad_ = true;
  } else {
    set_grad(grad);
  }
  after_accumulation.for_each([&](const auto& hook) { hook(grad_); });
}

void Accumulator::zero_grad() {
  has_grad_ = false;
  unreduced = false;
  if (!placed_) grad_ = Tensor();
}

void Accumulator::set_grad(const Tensor& grad) {
  check(grad);
  if (placed_) {
    copy_elements(grad, grad_);
  } else {
    grad_ = dense_copy(grad);
  }
  has_grad_ = true;
}

void Accumulator::place_grad(const Tensor& place) {
  check(place);
  if (!place.is_contiguous()) {
    raise<GradientError>("[gradient] a place for a gradient must be contiguous, got {}",
                         place.shape());
  }
  if (has_grad_) copy_elements(grad_, place);
  grad_ = place;
  placed_ = true;
}

void Accumulator::unplace_grad() {
  if (!placed_) return;
  grad_ = has_grad_ ? dense_copy(grad_) : Tensor();
  placed_ = false;
}

bool grad_enabled() { return recording; }

GradMode::GradMode(bool enabled) : before_(std::exchange(recording, enabled)) {}
GradMode::~GradMode() { recording = before_; }

const Tensor& require_grad(const Tensor& tensor, bool required) {
  if (required && !is_floating(tensor.dtype())) {
    wrong_dtype("require_grad", "floating point only", tensor.dtype());
  }
  TensorBody& body = tensor.body();
  if (Node* const node = node_of(tensor); node && !node->is_leaf()) {
    raise<GradientError>("[require_grad] the tensor is the result of '{}'; detach() it first",
                         node_of(tensor)->operation());
  }
  if (!required) {
    body.node = nullptr;
  } else if (!body.node) {
    body.node = make_ref<Accumulator>(tensor);
    body.base = nullptr;  // a leaf is no view on the tape
  }
  return tensor;
}

Tensor detach(const Tensor& tensor) { return view_of(tensor, tensor.layout()); }

Accumulator& accumulator(const Tensor& leaf) {
  if (!leaf.requires_grad() || !node_of(leaf)->is_leaf()) {
    raise<GradientError>("[gradient] only a leaf accumulates a gradient; this tensor of {} is {}",
                         leaf.shape(),
                         leaf.requires_grad() ? "the result of an operation"
                                              : "off the tape: require_grad() it first");
  }
  return static_cast<Accumulator&>(*leaf.node());
}

void zero_grad(const Tensor& leaf) { accumulator(leaf).zero_grad(); }

HookHandle on_gradient(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook) {
  if (!tensor.requires_grad()) {
    raise<GradientError>("[on_gradient] the tensor of {} is off the tape: no gradient will come",
                         tensor.shape());
  }
  return node_of(tensor)->gradient_hooks(tensor.body().output).add(std::move(hook));
}

HookHandle on_accumulation(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  return accumulator(leaf).after_accumulation.add(std::move(hook));
}

}  // namespace capstan
