#include "distributed/pipeline/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/raise.h"

namespace capstan::distributed::pipeline {
namespace {

/// The kinds of instruction that a chunk and a microbatch have seen.
class Seen {
 public:
  bool has(Kind kind) const { return bits_ >> static_cast<int>(kind) & 1; }
  void add(Kind kind) { bits_ |= 1u << static_cast<int>(kind); }

 private:
  uint32_t bits_ = 0;
};

/// Whether a chunk of this schedule ever does such a thing.
bool exists(const Schedule& s, Kind kind, int chunk) {
  switch (kind) {
    case Kind::receive_input:
      return !s.is_first(chunk);
    case Kind::send_output:
      return !s.is_last(chunk);
    case Kind::receive_gradient:
      return s.training && !s.is_last(chunk);
    case Kind::send_gradient:
      return s.training && !s.is_first(chunk);
    case Kind::backward:
    case Kind::backward_input:
    case Kind::backward_weight:
      return s.training;
    default:
      return true;
  }
}

/// What has to come before `i` and has not; nothing if all is there.
std::optional<Kind> missing(const Schedule& s, const Instruction& i, const Seen& seen) {
  const auto first_missing = [&](std::initializer_list<Kind> kinds) -> std::optional<Kind> {
    for (Kind kind : kinds) {
      if (!seen.has(kind) && exists(s, kind, i.chunk)) return kind;
    }
    return {};
  };
  switch (i.kind) {
    case Kind::receive_input:
      return {};
    case Kind::forward:
      return first_missing({Kind::receive_input});
    case Kind::send_output:
    case Kind::receive_gradient:
      return first_missing({Kind::forward});
    case Kind::free_output:
      return first_missing({Kind::forward, Kind::send_output});
    case Kind::backward:
    case Kind::backward_input:
      return first_missing({Kind::forward, Kind::receive_gradient});
    case Kind::backward_weight:
      return first_missing({Kind::backward_input});
    case Kind::send_gradient:
      return first_missing(
          {seen.has(Kind::backward_input) ? Kind::backward_input : Kind::backward});
    case Kind::free_all:
      return first_missing({Kind::forward, Kind::send_output,
                            seen.has(Kind::backward_input) ? Kind::backward_weight : Kind::backward,
                            Kind::send_gradient});
  }
  return {};
}

/// Why `i` can never be right on `stage`; empty if it can.
std::string out_of_place(const Schedule& s, int stage, const Instruction& i) {
  if (i.chunk < 0 || i.chunk >= s.stages * s.chunks) return "there is no such chunk";
  if (i.microbatch < 0 || i.microbatch >= s.microbatches) return "there is no such microbatch";
  if (s.stage_of(i.chunk) != stage) return fmt::format("chunk {} is not here", i.chunk);
  if (!exists(s, i.kind, i.chunk)) {
    return s.training ? "there is no chunk before the first, and none after the last"
                      : "without training there are no gradients";
  }
  return "";
}

void check_stage(const Schedule& s, int stage) {
  std::map<std::pair<int, int>, Seen> pairs;  // by chunk and microbatch
  for (const Instruction& i : s.lists[stage]) {
    const auto refuse = [&](const std::string& why) {
      raise<ValueError>("[check] {}, stage {}: {} is wrong: {}", s.name, stage, to_string(s, i),
                        why);
    };
    const auto text = [&](Kind kind) { return to_string(s, {kind, i.chunk, i.microbatch}); };
    if (const std::string why = out_of_place(s, stage, i); !why.empty()) refuse(why);
    Seen& seen = pairs[{i.chunk, i.microbatch}];
    if (seen.has(Kind::free_all)) refuse("it comes after " + text(Kind::free_all));
    if (seen.has(i.kind)) refuse("it comes twice");
    if (i.kind == Kind::backward && seen.has(Kind::backward_input)) {
      refuse("it comes after " + text(Kind::backward_input));
    }
    if (i.kind == Kind::backward_input && seen.has(Kind::backward)) {
      refuse("it comes after " + text(Kind::backward));
    }
    if (const auto kind = missing(s, i, seen)) refuse(text(*kind) + " has to come before it");
    seen.add(i.kind);
  }
  for (int chunk = stage; chunk < s.stages * s.chunks; chunk += s.stages) {
    for (int m = 0; m < s.microbatches; ++m) {
      // What free_all rests on was there if it was.
      if (pairs[{chunk, m}].has(Kind::free_all)) continue;
      raise<ValueError>("[check] {}, stage {}: {} is missing", s.name, stage,
                        to_string(s, {Kind::free_all, chunk, m}));
    }
  }
}

void check_order_of_messages(const Schedule& s) {
  // By kind of the send, sender and receiver; each message as its receive.
  std::map<std::tuple<Kind, int, int>, std::vector<Instruction>> sent, received;
  for (int stage = 0; stage < s.stages; ++stage) {
    for (const Instruction& i : s.lists[stage]) {
      if (is_send(i.kind)) {
        sent[{i.kind, stage, s.stage_of(peer(i).chunk)}].push_back(peer(i));
      } else if (is_receive(i.kind)) {
        received[{peer(i).kind, s.stage_of(peer(i).chunk), stage}].push_back(i);
      }
    }
  }
  for (const auto& [channel, messages] : sent) {
    const auto& [kind, from, to] = channel;
    const auto& taken = received[channel];
    const auto [message, other] = std::ranges::mismatch(messages, taken);
    if (message == messages.end()) continue;
    raise<ValueError>("[check] {}: message {} from stage {} to stage {} is {}, but {} is received",
                      s.name, message - messages.begin(), from, to, to_string(s, peer(*message)),
                      to_string(s, peer(*other)));
  }
}

}  // namespace

void check(const Schedule& s) {
  const bool positive = s.stages >= 1 && s.chunks >= 1 && s.microbatches >= 1;
  const bool too_many = 1.0 * s.stages * s.chunks * s.microbatches > kMostPasses;
  if (!positive || too_many || std::ssize(s.lists) != s.stages) {
    raise<ValueError>(
        "[check] {} needs 1 or more stages, chunks and microbatches, and a list a stage, got {}, "
        "{} "
        "and {}, with {} lists",
        s.name, s.stages, s.chunks, s.microbatches, s.lists.size());
  }
  for (int stage = 0; stage < s.stages; ++stage) check_stage(s, stage);
  check_order_of_messages(s);
}

std::vector<int> peak_live(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const auto& list : schedule.lists) {
    int live = 0, peak = 0;
    for (const Instruction& i : list) {
      live += (i.kind == Kind::forward) - (i.kind == Kind::free_all);
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace capstan::distributed::pipeline
