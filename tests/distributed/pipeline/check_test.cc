// Every schedule passes; with anything missing, doubled or out of place it does not.
#include "distributed/pipeline/check.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "tests/distributed/pipeline/schedules.h"

using namespace capstan;
using namespace capstan::distributed::pipeline;
using distributed::pipeline::testing::any_schedule;

namespace {

/// A schedule of 2 stages and 2 microbatches by hand.
Schedule by_hand(std::vector<Instruction> first, std::vector<Instruction> second) {
  return {.name = "by hand",
          .stages = 2,
          .chunks = 1,
          .microbatches = 2,
          .training = true,
          .lists = {std::move(first), std::move(second)}};
}

size_t find(const std::vector<Instruction>& list, const Instruction& i) {
  return std::ranges::find(list, i) - list.begin();
}

void refused(const Schedule& schedule, const char* message) {
  CHECK_THROWS_WITH_AS(check(schedule), message, ValueError);
}

}  // namespace

TEST_CASE("every schedule passes, and keeps no more than its bound") {
  CHECK(rc::check([] {
    const Schedule s = any_schedule();
    check(s);
    const std::vector<int> live = peak_live(s);
    const int p = s.stages, v = s.chunks, m = s.microbatches;
    for (int stage = 0; stage < p; ++stage) {
      const int expected = s.name == "gpipe"   ? m
                           : s.name == "1f1b"  ? std::min(p - stage, m)
                           : s.name == "zb-h1" ? std::min(p, m)
                           : s.name == "interleaved"
                               ? std::min(2 * (p - 1 - stage) + (v - 1) * p + 1, m * v)
                               : 1;
      RC_ASSERT(live[stage] == expected);
    }
  }));
}

TEST_CASE("live activations of 1F1B and GPipe with 4 stages and 8 microbatches") {
  CHECK(peak_live(one_f_one_b(4, 8)) == std::vector<int>{4, 3, 2, 1});
  CHECK(peak_live(gpipe(4, 8)) == std::vector<int>{8, 8, 8, 8});
  CHECK(peak_live(zb_h1(4, 8)) == std::vector<int>{4, 4, 4, 4});
}

TEST_CASE("no instruction may be missing, but for that which frees an output early") {
  CHECK(rc::check([] {
    Schedule s = any_schedule();
    auto& list = s.lists[*rc::gen::inRange(0, s.stages)];
    const auto at = list.begin() + *rc::gen::inRange<size_t>(0, list.size());
    const bool needed = at->kind != Kind::free_output;
    list.erase(at);
    if (needed) {
      RC_ASSERT_THROWS_AS(check(s), ValueError);
    } else {
      check(s);
    }
  }));
}

TEST_CASE("no instruction may come twice") {
  CHECK(rc::check([] {
    Schedule s = any_schedule();
    auto& list = s.lists[*rc::gen::inRange(0, s.stages)];
    const Instruction again = list[*rc::gen::inRange<size_t>(0, list.size())];
    list.insert(list.begin() + *rc::gen::inRange<size_t>(0, list.size() + 1), again);
    RC_ASSERT_THROWS_AS(check(s), ValueError);
  }));
}

TEST_CASE("the message says what is wrong, and where") {
  const Schedule good = one_f_one_b(2, 2);
  const auto with = [&](int stage, const auto& change) {
    Schedule s = good;
    change(s.lists[stage]);
    return s;
  };
  const Instruction forward{Kind::forward, 0, 1};

  refused(with(0, [&](auto& list) { list.pop_back(); }), "[check] 1f1b, stage 0: x1 is missing");
  refused(with(0, [&](auto& list) { list.push_back(forward); }),
          "[check] 1f1b, stage 0: F1 is wrong: it comes after x1");
  refused(with(0, [&](auto& list) { list.insert(list.begin(), 2, forward); }),
          "[check] 1f1b, stage 0: F1 is wrong: it comes twice");
  refused(with(1, [&](auto& list) { list.erase(list.begin()); }),
          "[check] 1f1b, stage 1: F0 is wrong: rF0 has to come before it");
  refused(with(0, [&](auto& list) { list[0].microbatch = 2; }),
          "[check] 1f1b, stage 0: F2 is wrong: there is no such microbatch");
  refused(with(0, [&](auto& list) { list[0].chunk = -1; }),
          "[check] 1f1b, stage 0: F0 is wrong: there is no such chunk");
  refused(with(0, [&](auto& list) { list[0].chunk = 1; }),
          "[check] 1f1b, stage 0: F0 is wrong: chunk 1 is not here");
  refused(with(0,
               [&](auto& list) {
                 list.push_back({Kind::receive_input, 0, 0});
               }),
          "[check] 1f1b, stage 0: rF0 is wrong: there is no chunk before the first, and none after "
          "the last");
  // Both halves and the whole.
  refused(with(0,
               [&](auto& list) {
                 list.insert(list.begin() + find(list, {Kind::backward, 0, 0}),
                             {Kind::backward_input, 0, 0});
               }),
          "[check] 1f1b, stage 0: B0 is wrong: it comes after I0");
  refused(with(0,
               [&](auto& list) {
                 list.insert(list.begin() + find(list, {Kind::backward, 0, 0}) + 1,
                             {Kind::backward_input, 0, 0});
               }),
          "[check] 1f1b, stage 0: I0 is wrong: it comes after B0");
  // One half only.
  Schedule half = zb_h1(2, 2);
  std::erase(half.lists[0], Instruction{Kind::backward_weight, 0, 1});
  refused(half, "[check] zb-h1, stage 0: x1 is wrong: W1 has to come before it");

  Schedule evaluation = forward_only(2, 1, 1);
  evaluation.lists[1].push_back({Kind::backward, 1, 0});
  refused(evaluation,
          "[check] forward, stage 1: B0 is wrong: without training there are no gradients");

  Schedule lists = good;
  lists.lists.pop_back();
  refused(
      lists,
      "[check] 1f1b needs 1 or more stages, chunks and microbatches, and a list a stage, got 2, "
      "1 and 2, with 1 lists");
  CHECK_THROWS_AS(check({.name = "huge",
                         .stages = 1,
                         .chunks = 1 << 30,
                         .microbatches = 1 << 30,
                         .training = true,
                         .lists = {{}}}),
                  ValueError);
  refused(Schedule{},
          "[check]  needs 1 or more stages, chunks and microbatches, and a list a stage, got 0, "
          "0 and 0, with 0 lists");
}

TEST_CASE("messages are received in the order they are sent") {
  using enum Kind;
  const Schedule s = by_hand({{forward, 0, 0},
                              {send_output, 0, 0},
                              {forward, 0, 1},
                              {send_output, 0, 1},
                              {receive_gradient, 0, 0},
                              {backward, 0, 0},
                              {free_all, 0, 0},
                              {receive_gradient, 0, 1},
                              {backward, 0, 1},
                              {free_all, 0, 1}},
                             {{receive_input, 1, 1},
                              {forward, 1, 1},
                              {receive_input, 1, 0},
                              {forward, 1, 0},
                              {backward, 1, 0},
                              {send_gradient, 1, 0},
                              {free_all, 1, 0},
                              {backward, 1, 1},
                              {send_gradient, 1, 1},
                              {free_all, 1, 1}});
  refused(s, "[check] by hand: message 0 from stage 0 to stage 1 is sF0, but sF1 is received");
}
