#include "autograd/engine.h"

#include "autograd/pass.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

using detail::Aim;
using detail::Pass;

thread_local HookList<void(const BackwardPass&)> start_hooks;
thread_local HookList<void()> end_hooks;

Node* node_of(const Tensor& tensor) { return static_cast<Node*>(tensor.node().get()); }

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
  walk_->forget_captured();
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
