// Makespans and bubbles against known answers, formulas and a slow reference; deadlocks.
#include "distributed/pipeline/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "tests/distributed/pipeline/schedules.h"

using namespace capstan;
using namespace capstan::distributed::pipeline;
using distributed::pipeline::testing::any_schedule;

namespace {

/// Case 5's: a backward pass takes twice as long as a forward one.
constexpr Durations kUsual{1, 1, 1, 0};

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + std::abs(b)); }

/// When each pass ends, by taking what each has to wait for over and over, until nothing changes.
std::map<std::tuple<Kind, int, int>, double> slow_ends(const Schedule& s,
                                                       const DurationOf& duration,
                                                       double transfer) {
  std::map<std::tuple<Kind, int, int>, double> ends;
  const auto end = [&](Kind kind, int chunk, int m) {
    const auto found = ends.find({kind, chunk, m});
    return found == ends.end() ? 0.0 : found->second;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& list : s.lists) {
      double clock = 0;
      for (const auto& [kind, chunk, m] : list) {
        if (!is_pass(kind)) continue;
        double begin = clock;
        if (kind == Kind::forward && chunk > 0) {
          begin = std::max(begin, end(Kind::forward, chunk - 1, m) + transfer);
        }
        if ((kind == Kind::backward || kind == Kind::backward_input) && !s.is_last(chunk)) {
          begin = std::max(begin, end(kind, chunk + 1, m) + transfer);
        }
        clock = begin + duration({kind, chunk, m});
        double& known = ends[{kind, chunk, m}];
        changed = changed || known != clock;
        known = clock;
      }
    }
  }
  return ends;
}

}  // namespace

TEST_CASE("1F1B and GPipe of 4 stages and 8 microbatches: makespan 33, 9 idle a stage") {
  for (const Schedule& schedule : {one_f_one_b(4, 8), gpipe(4, 8)}) {
    const Timeline timeline = simulate(schedule, kUsual);
    CHECK(timeline.makespan() == 33);
    for (int stage = 0; stage < 4; ++stage) CHECK(timeline.idle(stage) == 9);
    CHECK(timeline.bubble() == 3.0 / 8);
  }
}

TEST_CASE("the bubbles of the papers, at any size") {
  CHECK(rc::check([] {
    const Schedule s = any_schedule();
    const double p = s.stages, v = s.chunks, m = s.microbatches;
    const double f = *rc::gen::inRange(1, 5), b = *rc::gen::inRange(1, 5);
    const double bubble = simulate(s, {f, b, b, 0}).bubble();
    if (s.name == "gpipe" || s.name == "1f1b") RC_ASSERT(close(bubble, (p - 1) / m));
    if (s.name == "interleaved") RC_ASSERT(close(bubble, (p - 1) / (v * m)));
    if (s.name == "forward" && v == 1) RC_ASSERT(close(bubble, (p - 1) / m));
  }));
}

TEST_CASE("ZB-H1 is idle for a third of 1F1B's time where passes take equal times") {
  CHECK(rc::check([] {
    const int p = *rc::gen::inRange(1, 9), m = p + *rc::gen::inRange(0, 20);
    const double ideal = 3 * m;
    RC_ASSERT(close(simulate(zb_h1(p, m)).bubble(), (p - 1) / ideal));
    RC_ASSERT(close(simulate(one_f_one_b(p, m)).bubble(), 3 * (p - 1) / ideal));
  }));
}

TEST_CASE("ZB-H1's formula where they do not, and below 1F1B with any number of microbatches") {
  CHECK(rc::check([] {
    const int p = *rc::gen::inRange(2, 9), m = *rc::gen::inRange(1, 20);
    const double f = *rc::gen::inRange(1, 9), i = f + *rc::gen::inRange(0, 5),
                 w = *rc::gen::inRange(1, static_cast<int>(f) + 1);
    const double zero = simulate(zb_h1(p, m), {f, i, w, 0}).bubble();
    RC_ASSERT(zero < simulate(one_f_one_b(p, m), {f, i, w, 0}).bubble());
    if (m >= p) RC_ASSERT(close(zero, (p - 1) * (f + i - w) / (m * (f + i + w))));
  }));
}

TEST_CASE("any schedule, with any times, runs as the slow reference says") {
  CHECK(rc::check([] {
    const Schedule s = any_schedule();
    const int seed = *rc::gen::inRange(0, 1000);
    const double transfer = *rc::gen::inRange(0, 3);
    const DurationOf duration = [&](const Instruction& i) -> double {
      if (!is_pass(i.kind)) return transfer;
      return (seed + 7 * i.chunk + 3 * i.microbatch + 5 * static_cast<int>(i.kind)) % 11;
    };
    const auto expected = slow_ends(s, duration, transfer);
    size_t passes = 0;
    for (const auto& spans : simulate(s, duration).stages) {
      for (const auto& [pass, begin, end] : spans) {
        RC_ASSERT(end == expected.at({pass.kind, pass.chunk, pass.microbatch}));
        RC_ASSERT(end - begin == duration(pass));
        ++passes;
      }
    }
    RC_ASSERT(passes == expected.size());
  }));
}

TEST_CASE("messages take their time, beside the computing") {
  // Each of the 3 hops there and back is 0.5 longer.
  CHECK(simulate(gpipe(4, 8), {1, 1, 1, 0.5}).makespan() == 33 + 2 * 3 * 0.5);
}

TEST_CASE("a slow stage is the pace of all") {
  const Schedule schedule = gpipe(2, 4);
  const Timeline timeline = simulate(schedule, [](const Instruction& i) {
    return !is_pass(i.kind) ? 0 : i.chunk == 1 ? 3 : 1;
  });
  CHECK(timeline.busy(0) == 8);
  CHECK(timeline.busy(1) == 24);
  CHECK(timeline.makespan() == 26);
  CHECK(timeline.idle(0) == 18);
  CHECK(timeline.bubble() == 20.0 / 32);
}

TEST_CASE("stages that wait for one another are found, with the circle") {
  // Stage 0 wants B0 before F1, the last stage F1 before B0.
  Schedule s = one_f_one_b(3, 2);
  s.name = "mine";
  s.lists[0] = gpipe(3, 2).lists[0];
  const auto forward = gpipe(3, 2).lists[2];
  s.lists[2] = forward;
  CHECK_NOTHROW(simulate(s));
  auto& list = s.lists[0];
  const auto part = std::ranges::find(list, Instruction{Kind::forward, 0, 1});
  const auto backward = std::ranges::find(list, Instruction{Kind::receive_gradient, 0, 0});
  std::rotate(part, backward, backward + 3);
  CHECK_THROWS_WITH_AS(
      simulate(s),
      "[simulate] mine cannot go on: stage 0 waits in rB0 for stage 1, which waits "
      "in rF1 for stage 0",
      ValueError);
}

TEST_CASE("with sends that wait, GPipe runs and 1F1B does not") {
  CHECK(simulate(gpipe(4, 8), kUsual, Sends::wait).makespan() >= 33);
  CHECK(simulate(forward_only(3, 1, 5), kUsual, Sends::wait).makespan() == 7);
  CHECK_THROWS_WITH_AS(
      simulate(one_f_one_b(2, 4), kUsual, Sends::wait),
      "[simulate] 1f1b cannot go on: stage 0 waits in sF1 for stage 1, which waits "
      "in sB0 for stage 0",
      ValueError);
}

TEST_CASE("times that make no sense, and schedules that fail check(), are refused") {
  CHECK_THROWS_WITH_AS(simulate(gpipe(2, 2), {-1, 1, 1, 0}),
                       "[simulate] times must be finite and 0 or more, got -1 for F0", ValueError);
  CHECK_THROWS_AS(simulate(gpipe(2, 2), {1, 1, 1, std::numeric_limits<double>::quiet_NaN()}),
                  ValueError);
  Schedule s = gpipe(2, 2);
  s.lists[0].pop_back();
  CHECK_THROWS_WITH_AS(simulate(s), "[check] gpipe, stage 0: x1 is missing", ValueError);
}

TEST_CASE("a timeline of nothing has no bubble") {
  CHECK(Timeline{}.makespan() == 0);
  CHECK(Timeline{}.bubble() == 0);
  CHECK(simulate(gpipe(2, 2), {0, 0, 0, 0}).bubble() == 0);
}
