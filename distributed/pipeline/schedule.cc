// Reading order: in which order a stage takes its passes, a function a schedule; complete(), which
// adds what follows from them: receiving, sending and dropping; names and texts.
#include "distributed/pipeline/schedule.h"

#include <algorithm>

#include "core/raise.h"

namespace capstan::distributed::pipeline {
namespace {

void require_positive(const char* op, const char* what, int value) {
  if (value < 1) raise<ValueError>("[{}] needs 1 or more {}, got {}", op, what, value);
}

/// A schedule without lists.
Schedule begin(const char* name, int stages, int chunks, int microbatches) {
  require_positive(name, "stages", stages);
  require_positive(name, "chunks a stage", chunks);
  require_positive(name, "microbatches", microbatches);
  if (1.0 * stages * chunks * microbatches > kMostPasses) {
    raise<ValueError>("[{}] takes at most {} passes, got {} stages of {} chunks, {} microbatches",
                      name, kMostPasses, stages, chunks, microbatches);
  }
  return {.name = name, .stages = stages, .chunks = chunks, .microbatches = microbatches};
}

/// The forward passes of a stage, in order: microbatches in groups as large as there are stages,
/// each group through all chunks of the stage before the next group begins.
std::vector<Instruction> forward_passes(const Schedule& s, int stage) {
  std::vector<Instruction> passes;
  for (int group = 0; group < s.microbatches; group += s.stages) {
    for (int i = 0; i < s.chunks; ++i) {
      for (int m = group; m < std::min(group + s.stages, s.microbatches); ++m) {
        passes.push_back({Kind::forward, i * s.stages + stage, m});
      }
    }
  }
  return passes;
}

/// The same order backward: a group begins in the last chunk of the stage.
std::vector<Instruction> backward_passes(const Schedule& s, int stage, Kind kind) {
  std::vector<Instruction> passes = forward_passes(s, stage);
  const int last = (s.chunks - 1) * s.stages + stage;
  for (Instruction& pass : passes) pass = {kind, last + stage - pass.chunk, pass.microbatch};
  return passes;
}

/// `ahead` forward passes, then backward and forward in turn, then what is left. (Where backward
/// has two halves, the weight half of each microbatch comes `behind` microbatches late.)
std::vector<Instruction> alternate(const Schedule& s, int stage, int ahead,
                                   Kind kind = Kind::backward, int behind = 0) {
  const auto forward = forward_passes(s, stage), backward = backward_passes(s, stage, kind);
  const int count = static_cast<int>(forward.size());
  std::vector<Instruction> passes;
  for (int step = -ahead; step < count + behind; ++step) {
    if (step + ahead < count) passes.push_back(forward[step + ahead]);
    if (step >= 0 && step < count) passes.push_back(backward[step]);
    if (kind == Kind::backward_input && step >= behind) {
      const Instruction& late = backward[step - behind];
      passes.push_back({Kind::backward_weight, late.chunk, late.microbatch});
    }
  }
  return passes;
}

/// What a pass brings with it: its data is received as late, and sent as early, as can be.
void append_with_transfers(const Schedule& s, const Instruction& pass,
                           std::vector<Instruction>& list) {
  const auto add = [&](Kind kind) { list.push_back({kind, pass.chunk, pass.microbatch}); };
  switch (pass.kind) {
    case Kind::forward:
      if (!s.is_first(pass.chunk)) add(Kind::receive_input);
      add(Kind::forward);
      if (!s.is_last(pass.chunk)) {
        add(Kind::send_output);
        if (s.training) add(Kind::free_output);
      }
      if (!s.training) add(Kind::free_all);
      break;
    case Kind::backward:
    case Kind::backward_input:
      if (!s.is_last(pass.chunk)) add(Kind::receive_gradient);
      add(pass.kind);
      if (!s.is_first(pass.chunk)) add(Kind::send_gradient);
      if (pass.kind == Kind::backward) add(Kind::free_all);
      break;
    default:
      add(pass.kind);
      add(Kind::free_all);
  }
}

/// The schedule with the passes that `passes_of` gives each stage.
template <class PassesOf>
Schedule complete(Schedule s, const PassesOf& passes_of) {
  for (int stage = 0; stage < s.stages; ++stage) {
    std::vector<Instruction>& list = s.lists.emplace_back();
    for (const Instruction& pass : passes_of(stage)) append_with_transfers(s, pass, list);
  }
  return s;
}

}  // namespace

Schedule gpipe(int stages, int microbatches) {
  const Schedule s = begin("gpipe", stages, 1, microbatches);
  return complete(s, [&](int stage) {
    std::vector<Instruction> passes = forward_passes(s, stage);
    const auto backward = backward_passes(s, stage, Kind::backward);
    passes.insert(passes.end(), backward.begin(), backward.end());
    return passes;
  });
}

Schedule one_f_one_b(int stages, int microbatches) {
  const Schedule s = begin("1f1b", stages, 1, microbatches);
  return complete(s, [&](int stage) { return alternate(s, stage, s.stages - 1 - stage); });
}

Schedule interleaved(int stages, int chunks, int microbatches) {
  const Schedule s = begin("interleaved", stages, chunks, microbatches);
  if (stages < 2) {
    raise<ValueError>("[interleaved] needs 2 or more stages to send between, got {}", stages);
  }
  if (microbatches % stages != 0) {
    raise<ValueError>(
        "[interleaved] needs a multiple of {} microbatches, as there are {} stages, got {}; 1f1b "
        "takes any number",
        stages, stages, microbatches);
  }
  // The last stage, too, runs ahead: through all its chunks but the last, which alone goes straight
  // from forward to backward. Each stage before it is one forward and one backward further away.
  return complete(s, [&](int stage) {
    return alternate(s, stage, 2 * (s.stages - 1 - stage) + (s.chunks - 1) * s.stages);
  });
}

Schedule zb_h1(int stages, int microbatches) {
  const Schedule s = begin("zb-h1", stages, 1, microbatches);
  // What a stage saves by running ahead less than stage 0, it spends on weight halves put off.
  return complete(s, [&](int stage) {
    return alternate(s, stage, s.stages - 1 - stage, Kind::backward_input, stage);
  });
}

Schedule forward_only(int stages, int chunks, int microbatches) {
  Schedule s = begin("forward", stages, chunks, microbatches);
  if (stages == 1 && chunks > 1) {
    raise<ValueError>("[forward] chunks are cut from one another by stages, got {} on one", chunks);
  }
  s.training = false;
  return complete(s, [&](int stage) { return forward_passes(s, stage); });
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "zb-h1",
                                                 "forward"};
  return names;
}

Schedule make_schedule(const std::string& name, int stages, int chunks, int microbatches) {
  if (name == "interleaved") return interleaved(stages, chunks, microbatches);
  if (name == "forward") return forward_only(stages, chunks, microbatches);
  if (std::ranges::find(schedule_names(), name) == schedule_names().end()) {
    raise<ValueError>("[make_schedule] knows {}, got '{}'", fmt::join(schedule_names(), ", "),
                      name);
  }
  if (chunks != 1) {
    raise<ValueError>("[make_schedule] {} has one chunk a stage, got {}; interleaved takes several",
                      name, chunks);
  }
  if (name == "gpipe") return gpipe(stages, microbatches);
  return name == "1f1b" ? one_f_one_b(stages, microbatches) : zb_h1(stages, microbatches);
}

bool is_pass(Kind kind) {
  return kind == Kind::forward || kind == Kind::backward || kind == Kind::backward_input ||
         kind == Kind::backward_weight;
}
bool is_send(Kind kind) { return kind == Kind::send_output || kind == Kind::send_gradient; }
bool is_receive(Kind kind) { return kind == Kind::receive_input || kind == Kind::receive_gradient; }

Instruction peer(const Instruction& t) {
  switch (t.kind) {
    case Kind::send_output:
      return {Kind::receive_input, t.chunk + 1, t.microbatch};
    case Kind::receive_input:
      return {Kind::send_output, t.chunk - 1, t.microbatch};
    case Kind::send_gradient:
      return {Kind::receive_gradient, t.chunk - 1, t.microbatch};
    case Kind::receive_gradient:
      return {Kind::send_gradient, t.chunk + 1, t.microbatch};
    default:
      raise<ValueError>("[peer] only sends and receives have another end");
  }
}

std::string to_string(const Schedule& schedule, const Instruction& instruction) {
  constexpr const char* kLetters[] = {"rF", "F", "sF", "xF", "rB", "B", "I", "W", "sB", "x"};
  std::string text =
      kLetters[static_cast<int>(instruction.kind)] + std::to_string(instruction.microbatch);
  if (schedule.chunks > 1) text += "@" + std::to_string(instruction.chunk);
  return text;
}

std::string to_string(const Schedule& schedule, bool passes_only) {
  std::string text;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    text += fmt::format("stage {}:", stage);
    for (const Instruction& instruction : schedule.lists[stage]) {
      if (passes_only && !is_pass(instruction.kind)) continue;
      text += " " + to_string(schedule, instruction);
    }
    text += "\n";
  }
  return text;
}

}  // namespace capstan::distributed::pipeline
