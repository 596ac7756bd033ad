// Reading order: run(), carry_out(), then the passes, then what tied parameters add to them.
#include "distributed/pipeline/executor.h"

#include <algorithm>

#include "core/create.h"
#include "core/raise.h"

namespace capstan::distributed::pipeline {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Those of the tensors that need a gradient, which is all that travels backward.
template <class Values>
Values needing_gradients(const Values& values, const std::vector<Crossing>& crossings) {
  Values chosen;
  for (size_t i = 0; i < values.size(); ++i) {
    if (crossings[i].needs_gradient) chosen.push_back(values[i]);
  }
  return chosen;
}

/// The same on both ends.
std::string tag_of(const Instruction& transfer) {
  const bool output = transfer.kind == Kind::send_output || transfer.kind == Kind::receive_gradient;
  const int boundary = transfer.chunk + output;  // behind which chunk
  const bool forward = transfer.kind == Kind::send_output || transfer.kind == Kind::receive_input;
  return fmt::format("{} chunk {}, microbatch {}", forward ? "into" : "gradients into", boundary,
                     transfer.microbatch);
}

}  // namespace

void Executor::run(const Run& run) {
  run_ = &run;
  live_.clear();
  spans_.clear();
  outputs_.clear();
  outputs_.resize(run.schedule.microbatches);
  kept_ = peak_live_ = 0;
  expect_messages();
  begin_ = std::chrono::steady_clock::now();
  for (const Instruction& i : run.schedule.lists[stage_]) {
    if (microbatch(i).weight > 0) {
      carry_out(i);
    } else if (i.kind == Kind::backward || i.kind == Kind::backward_weight) {
      run_path(i, nullptr);
    }
  }
}

void Executor::expect_messages() {
  for (const Instruction& i : run_->schedule.lists[stage_]) {
    if (microbatch(i).weight == 0) continue;
    if (i.kind == Kind::receive_input) {
      link(i).expect(into(i.chunk, i), tag_of(i));
    } else if (i.kind == Kind::receive_gradient) {
      const auto& outputs = into(i.chunk + 1, i);
      link(i).expect(needing_gradients(outputs, outputs), tag_of(i));
    }
  }
}

Link& Executor::link(const Instruction& transfer) {
  const Schedule& schedule = run_->schedule;
  const Instruction sent = is_send(transfer.kind) ? transfer : peer(transfer);
  const Ends ends{schedule.stage_of(sent.chunk), schedule.stage_of(peer(sent).chunk)};
  return *links_.neighbours.at({sent.kind, ends});
}

void Executor::carry_out(const Instruction& i) {
  Live& live = live_[{i.chunk, i.microbatch}];
  switch (i.kind) {
    case Kind::receive_input:
      live.inputs = link(i).receive();
      break;
    case Kind::send_output:
      link(i).send(live.outputs, tag_of(i));
      break;
    case Kind::free_output:
      for (Tensor& output : live.outputs) output = without_elements(output);
      break;
    case Kind::receive_gradient:
      live.seeds = link(i).receive();
      break;
    case Kind::send_gradient:
      link(i).send(live.gradients, tag_of(i));
      live.gradients.clear();
      break;
    case Kind::free_all:
      live_.erase({i.chunk, i.microbatch});
      --kept_;
      break;
    default:
      const double begin = seconds_since(begin_);
      pass(i);
      spans_.push_back({i, begin, seconds_since(begin_)});
  }
}

void Executor::pass(const Instruction& i) {
  Live& live = live_[{i.chunk, i.microbatch}];
  switch (i.kind) {
    case Kind::forward:
      peak_live_ = std::max(peak_live_, ++kept_);
      return forward(i, live);
    case Kind::backward:
      return backward(i, live);
    case Kind::backward_input:
      return backward_input(i, live);
    default:
      return backward_weight(i, live);
  }
}

void Executor::forward(const Instruction& i, Live& live) {
  const Schedule& schedule = run_->schedule;
  const Microbatch& data = microbatch(i);
  if (data.generator) {
    default_generator() =
        Generator(data.generator->seed(),
                  data.generator->offset() + run_->traces[i.microbatch]->drawn[i.chunk]);
  }
  if (schedule.is_first(i.chunk)) live.inputs = data.inputs;
  const auto& crossings = into(i.chunk, i);
  for (size_t k = 0; k < live.inputs.size() && schedule.training; ++k) {
    if (crossings[k].needs_gradient) require_grad(live.inputs[k]);
  }
  Chunk& chunk = *part(i).chunk;
  live.outputs = chunk(live.inputs, &live.first);
  const auto& expected = into(i.chunk + 1, i);
  if (const auto got = pipeline::crossings(live.outputs); schedule.training && got != expected) {
    raise<ValueError>("[pipeline] {} gave {}, but on meta {}", chunk.describe(), to_string(got),
                      to_string(expected));
  }
  // From here on the tape keeps what it needs. (The first layer's output is where the first half of
  // backward ends if no chunk before waits for a gradient.)
  for (Tensors* places : {&live.inputs, &live.first}) {
    for (Tensor& tensor : *places) tensor = without_elements(tensor);
  }
  if (!schedule.is_last(i.chunk)) return;
  if (!schedule.training) {
    outputs_[i.microbatch] = std::move(live.outputs);
    return;
  }
  const Tensor loss = loss_(live.outputs, data.targets);
  if (loss.numel() != 1 || !loss.requires_grad()) {
    raise<ValueError>("[pipeline] a loss is one element that depends on the parameters, got {} {}",
                      loss.dtype(), loss.shape());
  }
  live.loss = loss.item<double>() * data.weight;
  live.outputs = {loss};
  // The mean times its weight is the sum over the samples.
  live.seeds = {full(loss.shape(), data.weight, {loss.dtype(), loss.device()})};
}

Executor::Roots Executor::roots(const Instruction& i, Live& live) const {
  Tensors outputs = run_->schedule.is_last(i.chunk)
                        ? live.outputs
                        : needing_gradients(live.outputs, into(i.chunk + 1, i));
  return {std::move(outputs), std::exchange(live.seeds, {})};
}

// Every pass over the tape that reaches parameters belongs to the chunk's path; without a walk, a
// microbatch without data.
void Executor::run_path(const Instruction& i, const std::function<void()>& walk) {
  GradientPath* const path = part(i).path.get();
  const Sync sync = i.microbatch + 1 == run_->schedule.microbatches ? Sync::yes : Sync::no;
  if (!walk) {
    if (path) path->backward_without_data(sync);
  } else if (path) {
    const Live& live = live_[{i.chunk, i.microbatch}];
    path->pass(walk, {microbatch(i).weight, live.loss}, sync);
  } else {
    walk();
  }
}

void Executor::backward(const Instruction& i, Live& live) {
  Roots roots = this->roots(i, live);
  add_owned(i, roots);
  if (!roots.tensors.empty()) {
    run_path(i, [&] { capstan::backward(roots.tensors, roots.seeds); });
  }
  send_borrowed(i, {});
  for (const Tensor& input : needing_gradients(live.inputs, into(i.chunk, i))) {
    live.gradients.push_back(input.has_grad() ? input.grad() : zeros_like(input));
  }
}

void Executor::backward_input(const Instruction& i, Live& live) {
  Tensors ends = needing_gradients(live.inputs, into(i.chunk, i));
  const auto inputs = std::ssize(ends);
  for (const Tensor& tensor : live.first) {
    if (inputs == 0 && tensor.requires_grad()) ends.push_back(tensor);
  }
  const auto borrowed = std::ssize(ends);
  if (run_->ties_each_microbatch) {  // somebody waits for these, too
    for (const Tie& tie : part(i).chunk->borrowed()) ends.push_back(tie.parameter);
  }
  const Roots roots = this->roots(i, live);
  live.rest.emplace(roots.tensors, roots.seeds, ends);
  const Tensors gradients = std::move(live.rest->gradients());
  live.gradients.assign(gradients.begin(), gradients.begin() + inputs);
  if (run_->ties_each_microbatch) {
    send_borrowed(i, {gradients.begin() + borrowed, gradients.end()});
  }
}

void Executor::backward_weight(const Instruction& i, Live& live) {
  Roots more;
  add_owned(i, more);
  run_path(i, [&] { live.rest->finish(more.tensors, more.seeds); });
  if (!run_->ties_each_microbatch) send_borrowed(i, {});
}

// Whether gradients of borrowed parameters travel with this microbatch.
bool Executor::ties_travel(const Instruction& i) const {
  if (run_->ties_each_microbatch) return true;
  const auto later = run_->microbatches.subspan(i.microbatch + 1);
  return std::ranges::all_of(later, [](const Microbatch& data) { return data.weight == 0; });
}

// The owner's parameter is a root of its own, with what the borrower sent as the seed: on one rank,
// too, the later use's gradient comes first, and the engine adds the others to it.
void Executor::add_owned(const Instruction& i, Roots& roots) {
  if (!ties_travel(i)) return;
  for (const Tie& tie : part(i).chunk->owned()) {
    Link& from = *links_.ties.at({tie.name, tie.borrower});
    from.expect(pipeline::crossings({tie.parameter}), tie.name);
    roots.tensors.push_back(tie.parameter);
    roots.seeds.push_back(from.receive()[0]);
  }
}

// `gradients` of the borrowed parameters, or those that have gathered in them.
void Executor::send_borrowed(const Instruction& i, Tensors gradients) {
  if (!ties_travel(i)) return;
  const std::vector<Tie>& borrowed = part(i).chunk->borrowed();
  if (gradients.empty()) {
    for (const auto& [name, owner, borrower, copy] : borrowed) {
      gradients.push_back(copy.has_grad() ? copy.grad() : zeros_like(copy));
      zero_grad(copy);
    }
  }
  for (size_t k = 0; k < borrowed.size(); ++k) {
    const Tie& tie = borrowed[k];
    links_.ties.at({tie.name, tie.borrower})->send({gradients[k]}, tie.name);
  }
}

}  // namespace capstan::distributed::pipeline
