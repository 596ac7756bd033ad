// Implements Ddp: the window first, then its passes, then what a reduction begins and ends with.
#include "distributed/ddp.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "core/raise.h"
#include "distributed/replicate.h"
#include "nn/state.h"

namespace capstan::distributed {

namespace {

/// Gives a parameter that the passes so far did not use a gradient of zeros.
void zero_if_missing(const Tensor& parameter) {
  if (parameter.has_grad()) return;
  accumulator(parameter).set_grad(
      zeros(parameter.shape(), {parameter.dtype(), parameter.device()}));
}

}  // namespace

Ddp::Ddp(nn::Module& model, Communicator& communicator, DdpOptions options)
    : communicator_(communicator), options_(std::move(options)) {
  communicator.agree("virtual_shards", std::to_string(options_.virtual_shards));
  replicate(nn::state_dict(model), communicator, "the model's parameters and buffers");
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.requires_grad()) trained_.emplace_back(name, parameter);
  }
  reducer_ = std::make_unique<Reducer>(
      trained_, communicator,
      std::vector<int64_t>{options_.first_bucket_bytes, options_.bucket_bytes}, options_.order,
      options_.virtual_shards);
  planned_ = !options_.order.empty();
  for (size_t i = 0; i < trained_.size(); ++i) {
    Accumulator& leaf = accumulator(trained_[i].second);
    hooks_.push_back(leaf.after_accumulation.add([this, i, &leaf](const Tensor&) {
      leaf.unreduced = true;
      if (pass_ == Pass::none) bypassed_ = true;
      if (pass_ == Pass::reducing) reducer_->mark_ready(static_cast<int>(i));
    }));
  }
}

Ddp::~Ddp() = default;

std::vector<int> Ddp::order() const {
  std::vector<int> order;
  if (!planned_) return order;
  for (const auto& bucket : reducer_->plan())
    order.insert(order.end(), bucket.begin(), bucket.end());
  return order;
}

void Ddp::begin_window_if_new() {
  // A gradient that was folded into the tree is gone, but its mark is there until a zero_grad().
  const bool any = std::any_of(trained_.begin(), trained_.end(), [](const auto& entry) {
    return entry.second.has_grad() || accumulator(entry.second).unreduced;
  });
  if (any && bypassed_) {
    raise<GradientError>(
        "[ddp.backward] the gradients hold a backward pass that this Ddp did not run: call "
        "zero_grad(), and "
        "ddp.backward(loss, weight, Sync::no) to accumulate");
  }
  if (any && reduced_) {
    raise<GradientError>(
        "[ddp.backward] the gradients of the last window are still there: call zero_grad() after "
        "step()");
  }
  if (!any) {
    window_ = {};
    folded_.assign(trained_.size(), false);
    reduced_ = bypassed_ = false;
    reducer_->forget_shards();
  }
}

void Ddp::check_pass(Sync sync) const {
  if (options_.virtual_shards == 0) return;
  const int64_t passes = reducer_->local_shards(), pass = reducer_->folded_shards() + 1;
  if ((pass == passes) == (sync == Sync::yes)) return;
  raise<GradientError>(
      "[ddp.backward] with {} virtual shards on {} ranks a window is {} backward passes on each, "
      "the last one with Sync::yes; this is pass {}, with Sync::{}",
      options_.virtual_shards, communicator_.size(), passes, pass,
      sync == Sync::yes ? "yes" : "no");
}

// Ends a pass that is not the last of its window.
void Ddp::fold_shard() {
  pass_ = Pass::none;
  if (options_.virtual_shards == 0) return;
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (trained_[i].second.has_grad()) folded_[i] = true;
    zero_if_missing(trained_[i].second);
  }
  reducer_->fold(window_);
  window_ = {};
  for (const auto& [_, parameter] : trained_) {
    Accumulator& leaf = accumulator(parameter);
    leaf.zero_grad();
    leaf.unreduced = true;
  }
}

void Ddp::backward(const Tensor& loss, double weight, Sync sync) {
  if (!(weight > 0 && std::isfinite(weight))) {
    raise<ValueError>(
        "[ddp.backward] the weight of a loss must be a number above 0, got {}; a rank without "
        "samples "
        "calls backward_without_data()",
        weight);
  }
  begin_window_if_new();
  check_pass(sync);
  window_.weight += weight;
  window_.loss += loss.item<double>() * weight;

  HookHandle start;
  if (sync == Sync::yes) {
    start = on_backward_start([this](const BackwardPass& pass) { start_reduction(&pass); });
  } else {
    pass_ = Pass::accumulating;
  }
  try {
    // The mean times its weight is the sum over the samples, so the seed is the weight.
    capstan::backward(loss, {.seed = full(loss.shape(), weight, {loss.dtype(), loss.device()})});
  } catch (...) {
    pass_ = Pass::none;
    throw;
  }
  if (sync == Sync::yes) {
    finish_reduction(true);
  } else {
    fold_shard();
  }
}

void Ddp::backward_without_data(Sync sync) {
  begin_window_if_new();
  check_pass(sync);
  if (sync == Sync::yes) {
    start_reduction(nullptr);
    finish_reduction(false);
  } else {
    fold_shard();
  }
}

void Ddp::start_reduction(const BackwardPass* pass) {
  std::set<const Accumulator*> coming;
  if (pass) coming.insert(pass->leaves.begin(), pass->leaves.end());
  std::vector<int> complete;  // no gradient will come for these any more
  std::string unused;
  for (size_t i = 0; i < trained_.size(); ++i) {
    Accumulator& leaf = accumulator(trained_[i].second);
    if (coming.contains(&leaf)) continue;
    complete.push_back(static_cast<int>(i));
    if (!leaf.gradient() && pass && !folded_[i]) unused += " " + trained_[i].first;
  }
  if (!unused.empty() && options_.unused == Unused::error) {
    raise<GradientError>(
        "[ddp.backward] the loss does not depend on:{}; freeze them, or choose "
        "Unused::zero_fill",
        unused);
  }
  pass_ = Pass::reducing;
  reducer_->start(window_);
  for (int i : complete) {
    zero_if_missing(trained_[i].second);
    reducer_->mark_ready(i);
  }
}

void Ddp::finish_reduction(bool had_data) {
  pass_ = Pass::none;
  last_ = reducer_->finish();
  // A rank without data knows no order; rank 0 then leaves the plan for a later window.
  if (!planned_) planned_ = reducer_->replan(had_data);
  reduced_ = true;
  for (const auto& [_, parameter] : trained_) accumulator(parameter).unreduced = false;
}

}  // namespace capstan::distributed
