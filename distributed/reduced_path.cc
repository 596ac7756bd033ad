// Implements ReducedPath: the window first, then its passes, then what a reduction begins and ends
// with.
#include "distributed/reduced_path.h"

#include <algorithm>
#include <set>

#include "core/raise.h"

namespace capstan::distributed {

namespace {

bool holds_gradient(const NamedTensors& parameters) {
  // A gradient that was folded into the tree is gone, but its mark is there until a zero_grad().
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& entry) {
    return entry.second.has_grad() || accumulator(entry.second).unreduced;
  });
}

}  // namespace

void ReducedPath::open(NamedTensors parameters, Window window,
                       std::unique_ptr<AveragedBuffers> buffers) {
  parameters_ = std::move(parameters);
  window_ = std::move(window);
  averaged_ = std::move(buffers);
  reducer_ = std::make_unique<Reducer>(window_.leaves, communicator_, window_.reducer);
  planned_ = !window_.reducer.ready_order.empty() || window_.reducer.scatter;
  if (window_.unused == Unused::skip) {
    used_ = zeros({std::ssize(window_.leaves)}, {.dtype = Dtype::uint8});
  }
  const auto watch = [this](const Tensor& leaf, const Tensor& stepped,
                            const std::function<void()>& reduce) {
    Accumulator& held = accumulator(stepped);
    hooks_.push_back(on_accumulation(leaf, [this, reduce, &held](const Tensor&) {
      held.unreduced = true;
      if (pass_ == Pass::none) bypassed_ = true;
      if (pass_ == Pass::reducing) reduce();
    }));
  };
  for (size_t i = 0; i < window_.leaves.size(); ++i) {
    watch(window_.leaves[i].second, window_.stepped[i], [this, i] {
      used_before_[i] = true;
      mark_ready(i);
    });
  }
  for (const NamedTensors* own : {&window_.apart, &window_.summed}) {
    for (const auto& [_, leaf] : *own) watch(leaf, leaf, [] {});
  }
}

std::vector<int> ReducedPath::order() const {
  std::vector<int> order;
  if (!planned_) return order;
  for (const auto& bucket : reducer_->plan())
    order.insert(order.end(), bucket.begin(), bucket.end());
  return order;
}

void ReducedPath::begin_window_if_new() {
  const bool any = holds_gradient(parameters_);
  if (any && bypassed_) {
    raise<GradientError>(
        "[backward] the gradients hold a backward pass that this strategy did not run: call "
        "zero_grad(), and backward(loss, weight, Sync::no) of the strategy to accumulate");
  }
  if (any && reduced_) {
    raise<GradientError>(
        "[backward] the gradients of the last window are still there: call zero_grad() after "
        "step()");
  }
  if (any) return;
  share_ = {};
  own_weight_ = 0;
  used_before_.assign(window_.leaves.size(), false);
  reduced_ = bypassed_ = false;
  reducer_->forget_window();
  window_begins();
}

void ReducedPath::check_pass(Sync sync) const {
  const int64_t shards = window_.reducer.virtual_shards;
  if (shards == 0) return;
  const int64_t passes = reducer_->local_shards(), pass = reducer_->folded_shards() + 1;
  if ((pass == passes) == (sync == Sync::yes)) return;
  raise<GradientError>(
      "[backward] with {} virtual shards on {} ranks a window is {} backward passes on each, the "
      "last one with Sync::yes; this is pass {}, with Sync::{}",
      shards, communicator_.size(), passes, pass, sync == Sync::yes ? "yes" : "no");
}

// Ends a pass that reduces nothing.
void ReducedPath::fold_shard() {
  if (window_.reducer.virtual_shards == 0) return;
  for (size_t i = 0; i < window_.leaves.size(); ++i) {
    if (window_.leaves[i].second.has_grad()) used_before_[i] = true;
  }
  reducer_->fold(share_);
  expect_more();
}

// What was summed so far is not all of the window yet.
void ReducedPath::expect_more() {
  share_ = {};
  for (const Tensor& stepped : window_.stepped) accumulator(stepped).unreduced = true;
}

void ReducedPath::pass(const std::function<void()>& run, const Share& share, Sync sync) {
  begin_window_if_new();
  check_pass(sync);
  own_weight_ += share.weight;
  share_.weight += share.weight;
  share_.loss += share.loss;

  HookHandle start;
  if (reduces(sync)) {
    start =
        on_backward_start([=, this](const BackwardPass& pass) { start_reduction(&pass, sync); });
  } else {
    pass_ = Pass::accumulating;
  }
  bool reducing = false;
  try {
    run();
    reducing = std::exchange(pass_, Pass::none) == Pass::reducing;
    pass_ends();
  } catch (...) {
    pass_ = Pass::none;
    pass_ends();
    throw;
  }
  if (!reduces(sync)) return fold_shard();
  if (!reducing) raise<GradientError>("[pass] what was run made no backward pass");
  finish_reduction(true, sync);
}

void ReducedPath::backward_without_data(Sync sync) {
  begin_window_if_new();
  check_pass(sync);
  pass_without_data([&] {
    if (!reduces(sync)) return fold_shard();
    start_reduction(nullptr, sync);
    pass_ = Pass::none;
    finish_reduction(false, sync);
  });
}

void ReducedPath::start_reduction(const BackwardPass* pass, Sync sync) {
  std::set<const Accumulator*> coming;
  if (pass) coming.insert(pass->leaves.begin(), pass->leaves.end());
  std::vector<size_t> complete;  // no gradient will come for these any more
  std::string unused;
  for (size_t i = 0; i < window_.leaves.size(); ++i) {
    const auto& [name, parameter] = window_.leaves[i];
    Accumulator& leaf = accumulator(parameter);
    if (coming.contains(&leaf)) continue;
    complete.push_back(i);
    if (!leaf.gradient() && pass && !used_before_[i]) unused += " " + name;
  }
  const bool closes = sync == Sync::yes;
  if (!unused.empty() && window_.unused == Unused::error && closes) {
    raise<GradientError>(
        "[backward] the loss does not depend on:{}; freeze them, or choose Unused::zero_fill",
        unused);
  }
  if (window_.unused == Unused::skip && closes) {
    auto* used = used_.mutable_data<uint8_t>();
    std::fill_n(used, window_.leaves.size(), 1);
    for (size_t i : complete) used[i] = window_.leaves[i].second.has_grad() || used_before_[i];
    used_work_ = communicator_.all_reduce(used_, Reduce::max, "used parameters");
  }
  pass_ = Pass::reducing;
  ready_.assign(window_.leaves.size(), false);
  reducer_->start(share_, closes);
  for (size_t i : complete) mark_ready(i);
}

void ReducedPath::mark_ready(size_t leaf) {
  ready_[leaf] = true;
  reducer_->mark_ready(static_cast<int>(leaf));
}

void ReducedPath::finish_reduction(bool had_data, Sync sync) {
  reduced_ = true;  // or failed: either way the window is over
  // Some are reached, but by operations that have no gradient to give, like floor().
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) mark_ready(i);
  }
  if (window_.reducer.check_nan) {
    NamedTensors gradients;
    for (const NamedTensors* own : {&window_.apart, &window_.summed}) {
      for (const auto& [name, leaf] : *own) {
        if (leaf.has_grad()) gradients.emplace_back(name, leaf.grad());
      }
    }
    reducer_->look_for_nan(gradients);
  }
  const Share all = reducer_->finish();
  if (sync == Sync::no) {
    reduced_ = false;
    return expect_more();
  }
  last_ = all;
  // A rank without data knows no order; rank 0 then leaves the plan for a later window.
  if (!planned_) planned_ = reducer_->replan(had_data);
  gradients_are_there();
  for (const auto& [_, parameter] : parameters_) accumulator(parameter).unreduced = false;
  if (window_.unused == Unused::skip) skip_unused();
  const auto divide = [](const NamedTensors& leaves, double weight) {
    for (const auto& [_, leaf] : leaves) {
      if (leaf.has_grad()) scale_elements(leaf.grad(), 1 / weight);
    }
  };
  divide(window_.apart, own_weight_);
  divide(window_.summed, last_.weight);
  if (last_.weight > 0) averaged_->average(own_weight_ / last_.weight, communicator_);
  window_ends();
}

// Forgets the zeros that came back for parameters that no rank used.
void ReducedPath::skip_unused() {
  used_work_.wait();
  for (size_t i = 0; i < window_.leaves.size(); ++i) {
    if (used_.data<uint8_t>()[i] == 0) zero_grad(window_.stepped[i]);
  }
}

}  // namespace capstan::distributed
