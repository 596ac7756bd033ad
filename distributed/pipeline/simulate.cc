#include "distributed/pipeline/simulate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/raise.h"
#include "distributed/pipeline/check.h"

namespace capstan::distributed::pipeline {
namespace {

class Simulation {
 public:
  Simulation(const Schedule& schedule, const DurationOf& duration, Sends sends)
      : schedule_(schedule), duration_(duration), sends_(sends), stages_(schedule.stages) {
    arrivals_.resize(2ul * schedule.stages * schedule.chunks * schedule.microbatches);
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        while (next(stage) && step(stage)) moved = true;
      }
    }
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      if (next(stage)) raise_deadlock(stage);
    }
    Timeline timeline;
    for (Stage& stage : stages_) timeline.stages.push_back(std::move(stage.spans));
    return timeline;
  }

 private:
  struct Stage {
    size_t at = 0;  // in its list
    double clock = 0;
    std::vector<Span> spans;
  };

  /// The instruction a stage is at; null at the end.
  const Instruction* next(int stage) const {
    const auto& list = schedule_.lists[stage];
    return stages_[stage].at < list.size() ? &list[stages_[stage].at] : nullptr;
  }

  /// Runs one instruction, unless it has to wait.
  bool step(int number) {
    Stage& stage = stages_[number];
    const Instruction& i = *next(number);
    if (is_pass(i.kind)) {
      const double begin = stage.clock;
      stage.clock += duration(i);
      stage.spans.push_back({i, begin, stage.clock});
    } else if (is_send(i.kind) && sends_ == Sends::go_on) {
      arrival(peer(i)) = stage.clock + duration(i);
    } else if (is_send(i.kind)) {
      const int to = schedule_.stage_of(peer(i).chunk);
      if (!next(to) || *next(to) != peer(i)) return false;
      stage.clock = std::max(stage.clock, stages_[to].clock) + duration(i);
      arrival(peer(i)) = stage.clock;
    } else if (is_receive(i.kind)) {
      if (!arrival(i)) return false;
      stage.clock = std::max(stage.clock, *arrival(i));
    }
    ++stage.at;
    return true;
  }

  double duration(const Instruction& i) const {
    const double time = duration_(i);
    if (std::isfinite(time) && time >= 0) return time;
    raise<ValueError>("[simulate] times must be finite and 0 or more, got {} for {}", time,
                      to_string(schedule_, i));
  }

  /// When the message of a receive is there; nothing before it is sent.
  std::optional<double>& arrival(const Instruction& i) {
    const size_t pair = static_cast<size_t>(i.chunk) * schedule_.microbatches + i.microbatch;
    return arrivals_[2 * pair + (i.kind == Kind::receive_gradient)];
  }

  /// Every stage that waits, waits for one other; so to follow them from anywhere ends in a circle.
  [[noreturn]] void raise_deadlock(int stage) const {
    std::vector<int> way;
    while (std::ranges::find(way, stage) == way.end()) {
      way.push_back(stage);
      stage = schedule_.stage_of(peer(*next(stage)).chunk);
    }
    std::string circle = fmt::format("stage {}", stage);
    const auto begin = std::ranges::find(way, stage);
    for (auto at = begin; at != way.end(); ++at) {
      const Instruction& i = *next(*at);
      circle += fmt::format("{} waits in {} for stage {}", at == begin ? "" : ", which",
                            to_string(schedule_, i), schedule_.stage_of(peer(i).chunk));
    }
    raise<ValueError>("[simulate] {} cannot go on: {}", schedule_.name, circle);
  }

  const Schedule& schedule_;
  const DurationOf& duration_;
  const Sends sends_;
  std::vector<Stage> stages_;
  std::vector<std::optional<double>> arrivals_;
};

}  // namespace

Timeline simulate(const Schedule& schedule, const DurationOf& duration, Sends sends) {
  check(schedule);
  return Simulation(schedule, duration, sends).run();
}

Timeline simulate(const Schedule& schedule, const Durations& durations, Sends sends) {
  const auto duration = [&](const Instruction& i) {
    switch (i.kind) {
      case Kind::forward:
        return durations.forward / schedule.chunks;
      case Kind::backward:
        return (durations.backward_input + durations.backward_weight) / schedule.chunks;
      case Kind::backward_input:
        return durations.backward_input / schedule.chunks;
      case Kind::backward_weight:
        return durations.backward_weight / schedule.chunks;
      default:
        return durations.transfer;
    }
  };
  return simulate(schedule, DurationOf(duration), sends);
}

double Timeline::makespan() const {
  double first = 0, last = 0;
  bool any = false;
  for (const auto& spans : stages) {
    for (const Span& span : spans) {
      first = any ? std::min(first, span.begin) : span.begin;
      last = any ? std::max(last, span.end) : span.end;
      any = true;
    }
  }
  return last - first;
}

double Timeline::busy(int stage) const {
  double sum = 0;
  for (const Span& span : stages[stage]) sum += span.end - span.begin;
  return sum;
}

double Timeline::bubble() const {
  double work = 0;
  for (int stage = 0; stage < std::ssize(stages); ++stage) work += busy(stage);
  return work > 0 ? makespan() * static_cast<double>(stages.size()) / work - 1 : 0;
}

}  // namespace capstan::distributed::pipeline
