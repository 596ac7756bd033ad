// Implements Ddp: the window first, then its passes, then what a reduction begins and ends with.
#include "distributed/ddp.h"

#include <algorithm>
#include <set>

#include "autograd/engine.h"
#include "core/raise.h"
#include "distributed/replica_check.h"
#include "distributed/replicate.h"
#include "nn/state.h"
#include "optim/clip.h"

namespace capstan::distributed {

namespace {

/// Gives a parameter that the passes so far did not use a gradient of zeros.
void zero_if_missing(const Tensor& parameter) {
  if (parameter.has_grad()) return;
  accumulator(parameter).set_grad(
      zeros(parameter.shape(), {parameter.dtype(), parameter.device()}));
}

std::string describe(const DdpOptions& options) {
  return fmt::format(
      "buckets of {} and {} bytes, unused {}, order {}, virtual shards {}, hook {}, predivide {}, "
      "exclude {}, check_nan {}, check_replicas {}",
      options.first_bucket_bytes, options.bucket_bytes, static_cast<int>(options.unused),
      fmt::join(options.order, " "), options.virtual_shards,
      options.hook ? options.hook->name() : "none", options.predivide.value_or(0),
      fmt::join(options.exclude, " "), options.check_nan, options.check_replicas);
}

bool holds_gradient(const NamedTensors& parameters) {
  // A gradient that was folded into the tree is gone, but its mark is there until a zero_grad().
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& entry) {
    return entry.second.has_grad() || accumulator(entry.second).unreduced;
  });
}

}  // namespace

Ddp::Ddp(nn::Module& model, Communicator& communicator, DdpOptions options)
    : communicator_(communicator), options_(std::move(options)) {
  if (options_.check_replicas < 0) {
    raise<ValueError>("[ddp] check_replicas is a number of windows, or 0 for never, got {}",
                      options_.check_replicas);
  }
  communicator.agree("the options of Ddp", describe(options_));
  const NamePatterns exclude(options_.exclude);
  communicator.together("exclude", [&] { shared_ = exclude.others(nn::state_dict(model)); });
  replicate(shared_, communicator, "the model's parameters and buffers");
  averaged_ = std::make_unique<AveragedBuffers>(model, exclude);
  for (const auto& [name, parameter] : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameters_.emplace_back(name, parameter);
    (exclude.fit(name) ? own_ : trained_).emplace_back(name, parameter);
  }
  reducer_ = std::make_unique<Reducer>(
      trained_, communicator,
      ReducerOptions{.limits = {options_.first_bucket_bytes, options_.bucket_bytes},
                     .ready_order = options_.order,
                     .virtual_shards = options_.virtual_shards,
                     .hook = options_.hook,
                     .predivide = options_.predivide,
                     .check_nan = options_.check_nan});
  planned_ = !options_.order.empty();
  if (options_.unused == Unused::skip) {
    used_ = zeros({std::ssize(trained_)}, {.dtype = Dtype::uint8});
  }
  const auto watch = [this](const Tensor& parameter, const std::function<void()>& reduce) {
    Accumulator& leaf = accumulator(parameter);
    hooks_.push_back(leaf.after_accumulation.add([this, reduce, &leaf](const Tensor&) {
      leaf.unreduced = true;
      if (pass_ == Pass::none) bypassed_ = true;
      if (pass_ == Pass::reducing) reduce();
    }));
  };
  for (size_t i = 0; i < trained_.size(); ++i)
    watch(trained_[i].second, [this, i] { mark_ready(i); });
  for (const auto& [_, parameter] : own_) watch(parameter, [] {});
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
  const bool any = holds_gradient(trained_) || holds_gradient(own_);
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
    own_weight_ = 0;
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

void Ddp::pass(const std::function<void()>& run, const Share& share, Sync sync) {
  begin_window_if_new();
  check_pass(sync);
  own_weight_ += share.weight;
  window_.weight += share.weight;
  window_.loss += share.loss;

  HookHandle start;
  if (sync == Sync::yes) {
    start = on_backward_start([this](const BackwardPass& pass) { start_reduction(&pass); });
  } else {
    pass_ = Pass::accumulating;
  }
  try {
    run();
  } catch (...) {
    pass_ = Pass::none;
    throw;
  }
  if (sync == Sync::yes) {
    if (pass_ != Pass::reducing) raise<GradientError>("[pass] what was run made no backward pass");
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
  std::vector<size_t> complete;  // no gradient will come for these any more
  std::string unused;
  for (size_t i = 0; i < trained_.size(); ++i) {
    Accumulator& leaf = accumulator(trained_[i].second);
    if (coming.contains(&leaf)) continue;
    complete.push_back(i);
    if (!leaf.gradient() && pass && !folded_[i]) unused += " " + trained_[i].first;
  }
  if (!unused.empty() && options_.unused == Unused::error) {
    raise<GradientError>(
        "[ddp.backward] the loss does not depend on:{}; freeze them, or choose "
        "Unused::zero_fill",
        unused);
  }
  if (options_.unused == Unused::skip) {
    auto* used = used_.mutable_data<uint8_t>();
    std::fill_n(used, trained_.size(), 1);
    for (size_t i : complete) used[i] = trained_[i].second.has_grad() || folded_[i];
    used_work_ = communicator_.all_reduce(used_, Reduce::max, "used parameters");
  }
  pass_ = Pass::reducing;
  ready_.assign(trained_.size(), false);
  reducer_->start(window_);
  for (size_t i : complete) mark_ready(i);
}

void Ddp::mark_ready(size_t parameter) {
  zero_if_missing(trained_[parameter].second);
  ready_[parameter] = true;
  reducer_->mark_ready(static_cast<int>(parameter));
}

void Ddp::finish_reduction(bool had_data) {
  pass_ = Pass::none;
  reduced_ = true;  // or failed: either way the window is over
  // Some are reached, but by operations that have no gradient to give, like floor().
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (!ready_[i]) mark_ready(i);
  }
  if (options_.check_nan) {
    NamedTensors own;
    for (const auto& [name, parameter] : own_) {
      if (parameter.has_grad()) own.emplace_back(name, parameter.grad());
    }
    reducer_->look_for_nan(own);
  }
  last_ = reducer_->finish();
  // A rank without data knows no order; rank 0 then leaves the plan for a later window.
  if (!planned_) planned_ = reducer_->replan(had_data);
  for (const auto& [_, parameter] : trained_) accumulator(parameter).unreduced = false;
  if (options_.unused == Unused::skip) skip_unused();
  for (const auto& [_, parameter] : own_) {
    if (parameter.has_grad()) scale_elements(parameter.grad(), 1 / own_weight_);
    accumulator(parameter).unreduced = false;
  }
  if (last_.weight > 0) averaged_->average(own_weight_ / last_.weight, communicator_);
  ++windows_;
  if (options_.check_replicas > 0 && windows_ % options_.check_replicas == 0) check_replicas();
}

// Forgets the zeros that came back for parameters that no rank used.
void Ddp::skip_unused() {
  used_work_.wait();
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (used_.data<uint8_t>()[i] == 0) zero_grad(trained_[i].second);
  }
}

double Ddp::clip_grad_norm(double limit) { return optim::clip_grad_norm(parameters_, limit); }

void Ddp::check_replicas() const { distributed::check_replicas(shared_, communicator_); }

}  // namespace capstan::distributed
