// Implements Gathering: forward, backward, then what both do.
#include "distributed/fsdp/gathering.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/raise.h"

namespace capstan::distributed {
namespace {

/// The number of the newest node.
uint64_t newest_node(const Tensor& any) { return make_ref<Accumulator>(any)->sequence(); }

}  // namespace

Gathering::Gathering(nn::Module& model, std::vector<Unit>& units, Communicator& ranks,
                     GatheringOptions options)
    : units_(units), ranks_(ranks), options_(options), states_(units.size()) {
  hooks_.push_back(model.before_forward.add([this](nn::Module&) {
    previous_[forward] = -1;
    for (State& state : states_) state.calls.clear();  // of a forward pass that threw
    if (grad_enabled()) forget_kept();                 // of one without a backward
  }));
  for (size_t u = 0; u < units.size(); ++u) {
    const int unit = static_cast<int>(u);
    hooks_.push_back(
        units[u].module->before_forward.add([this, unit](nn::Module&) { enter(unit); }));
    hooks_.push_back(units[u].module->after_forward.add(
        [this, unit](nn::Module&, std::span<const Tensor> outputs) { leave(unit, outputs); }));
  }
}

void Gathering::enter(int unit) {
  states_[unit].calls.push_back(newest_node(units_[unit].flats[0]->whole()));
  need(unit, forward);
}

void Gathering::leave(int unit, std::span<const Tensor> outputs) {
  State& state = states_[unit];
  const uint64_t first = state.calls.back();
  state.calls.pop_back();
  // A part that runs again in backward (autograd/checkpoint.h): the tape goes there next.
  if (detail::running_node() || !state.calls.empty()) return;
  const bool recording = grad_enabled();
  if (recording && outputs.empty()) return;  // no result to put a hook on: stays for backward
  if (recording && outputs[0].requires_grad()) {
    const auto done = std::make_shared<bool>(false);
    const uint64_t last = static_cast<Node&>(*outputs[0].node()).sequence();
    HookHandle handle = on_gradient(outputs[0], [=, this](const Tensor&) {
      before_backward(unit, first, last);
      *done = true;
      return Tensor();
    });
    tape_hooks_.push_back({std::move(handle), done});
    if (!options_.release_after_forward) return;
    return release(unit, true);
  }
  release(unit);
}

void Gathering::before_backward(int unit, uint64_t first, uint64_t last) {
  for (size_t u = 0; u < units_.size(); ++u) {
    const uint64_t begun = states_[u].first;
    if (static_cast<int>(u) != unit && begun > 0 && begun >= last) release(static_cast<int>(u));
  }
  states_[unit].first = first;
  need(unit, backward);
}

void Gathering::pass_ends() {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (states_[u].calls.empty()) release(static_cast<int>(u));
  }
  forget_kept();
  previous_[forward] = previous_[backward] = -1;
  std::erase_if(tape_hooks_, [](const TapeHook& hook) { return *hook.done; });
  if (!gathers_.empty()) last_gathers_ = std::exchange(gathers_, {});
}

// A forward pass without a backward leaves units gathered.
void Gathering::weights_changed() {
  for (Unit& unit : units_) {
    for (const auto& flat : unit.flats) flat->shard_changed();
  }
  for (size_t u = 0; u < units_.size(); ++u) release(static_cast<int>(u));
  if (held_ == 0) return;
  for (Unit& unit : units_) {
    for (const auto& flat : unit.flats) meter_.wait(flat->gather(ranks_));
  }
}

void Gathering::pass_without_data() {
  const std::vector<Gather> order = last_gathers_.empty() ? order_of_the_model() : last_gathers_;
  for (const auto& [unit, near] : order) {
    if (!near) {
      for (const auto& flat : units_[unit].flats) flat->forget_kept();
    }
    fetch(unit, true);
    arrive(unit);
    release(unit, true);
  }
  forget_kept();
  gathers_.clear();
}

// Units around others come first; backward is forward's ends in reverse.
std::vector<Gathering::Gather> Gathering::order_of_the_model() const {
  std::vector<Gather> order;
  std::vector<int> ends, open;
  for (size_t u = 0; u < units_.size(); ++u) {
    order.push_back({static_cast<int>(u), false});
    const auto lies_in = [&](const std::string& outer) {
      return outer.empty() || units_[u].name.starts_with(outer + ".");
    };
    while (!open.empty() && !lies_in(units_[open.back()].name)) {
      ends.push_back(open.back());
      open.pop_back();
    }
    open.push_back(static_cast<int>(u));
  }
  ends.insert(ends.end(), open.rbegin(), open.rend());
  if (!options_.release_after_forward) return order;
  for (auto unit = ends.rbegin(); unit != ends.rend(); ++unit)
    order.push_back({*unit, options_.near != nullptr});
  return order;
}

void Gathering::need(int unit, Direction direction) {
  const bool of_a_pass = direction == backward || grad_enabled();
  fetch(unit, of_a_pass);
  arrive(unit);
  int& previous = previous_[direction];
  if (previous >= 0) states_[previous].next[direction] = unit;
  previous = unit;
  const int next = states_[unit].next[direction];
  if (options_.prefetch && next >= 0) fetch(next, of_a_pass);
}

// Starts to gather what is not there.
void Gathering::fetch(int unit, bool of_a_pass) {
  bool any = false;
  const bool near = units_[unit].flats[0]->is_kept();
  for (const auto& flat : units_[unit].flats) {
    if (flat->is_gathered()) continue;
    states_[unit].coming.push_back(flat->gather(ranks_));
    any = true;
  }
  if (any && of_a_pass) gathers_.push_back({unit, near});
}

void Gathering::arrive(int unit) {
  for (const Work& work : states_[unit].coming) meter_.wait(work);
  states_[unit].coming.clear();
}

// With `keep`, the pass will need the unit again.
void Gathering::release(int unit, bool keep) {
  states_[unit].first = 0;
  if (held_ > 0) return;
  arrive(unit);
  for (const auto& flat : units_[unit].flats) {
    if (keep && options_.near && !flat->is_kept()) flat->keep(*options_.near);
    flat->release();
  }
}

void Gathering::forget_kept() {
  for (Unit& unit : units_) {
    for (const auto& flat : unit.flats) flat->forget_kept();
  }
}

void Gathering::hold_all() {
  ++held_;
  for (size_t u = 0; u < units_.size(); ++u) fetch(static_cast<int>(u), false);
}

void Gathering::arrive_all() {
  for (size_t u = 0; u < units_.size(); ++u) arrive(static_cast<int>(u));
}

void Gathering::let_go() {
  if (held_ == 0) raise<ValueError>("[fsdp] let_go() gives back what hold() took: nothing is held");
  if (--held_ > 0) return;
  for (size_t u = 0; u < units_.size(); ++u) release(static_cast<int>(u));
}

}  // namespace capstan::distributed
