// The lists of known schedules, word by word, and what makes no schedule.
#include "distributed/pipeline/schedule.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;
using namespace capstan::distributed::pipeline;

TEST_CASE("1F1B of 4 stages and 8 microbatches") {
  CHECK(to_string(one_f_one_b(4, 8), true) ==
        "stage 0: F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
        "stage 1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
        "stage 2: F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
        "stage 3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

TEST_CASE("1F1B takes fewer microbatches than stages, too") {
  CHECK(to_string(one_f_one_b(3, 2), true) ==
        "stage 0: F0 F1 B0 B1\n"
        "stage 1: F0 F1 B0 B1\n"
        "stage 2: F0 B0 F1 B1\n");
}

TEST_CASE("GPipe") {
  CHECK(to_string(gpipe(2, 3), true) ==
        "stage 0: F0 F1 F2 B0 B1 B2\n"
        "stage 1: F0 F1 F2 B0 B1 B2\n");
}

TEST_CASE("interleaved 1F1B of 2 stages with 2 chunks each, by hand") {
  CHECK(to_string(interleaved(2, 2, 4), true) ==
        "stage 0: F0@0 F1@0 F0@2 F1@2 F2@0 B0@2 F3@0 B1@2 F2@2 B0@0 F3@2 B1@0 B2@2 B3@2 B2@0 B3@0\n"
        "stage 1: F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 F2@1 B0@1 F3@1 B1@1 F2@3 B2@3 F3@3 B3@3 B2@1 "
        "B3@1\n");
  CHECK(to_string(interleaved(4, 2, 8)).find("F8") == std::string::npos);
}

TEST_CASE("ZB-H1 of 4 stages and 8 microbatches") {
  CHECK(to_string(zb_h1(4, 8), true) ==
        "stage 0: F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7\n"
        "stage 1: F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7\n"
        "stage 2: F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7\n"
        "stage 3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7\n");
}

TEST_CASE("forward passes only, with a last group of any size") {
  CHECK(to_string(forward_only(2, 2, 3), true) ==
        "stage 0: F0@0 F1@0 F0@2 F1@2 F2@0 F2@2\n"
        "stage 1: F0@1 F1@1 F0@3 F1@3 F2@1 F2@3\n");
}

TEST_CASE("receiving, sending and dropping are instructions") {
  CHECK(to_string(one_f_one_b(2, 2)) ==
        "stage 0: F0 sF0 xF0 F1 sF1 xF1 rB0 B0 x0 rB1 B1 x1\n"
        "stage 1: rF0 F0 B0 sB0 x0 rF1 F1 B1 sB1 x1\n");
  CHECK(to_string(zb_h1(2, 1)) ==
        "stage 0: F0 sF0 xF0 rB0 I0 W0 x0\n"
        "stage 1: rF0 F0 I0 sB0 W0 x0\n");
  CHECK(to_string(forward_only(2, 1, 1)) ==
        "stage 0: F0 sF0 x0\n"
        "stage 1: rF0 F0 x0\n");
}

TEST_CASE("one stage is accumulation: nothing is sent") {
  CHECK(to_string(one_f_one_b(1, 2)) == "stage 0: F0 B0 x0 F1 B1 x1\n");
  CHECK(to_string(zb_h1(1, 1)) == "stage 0: F0 I0 W0 x0\n");
}

TEST_CASE("a transfer has another end") {
  const Instruction sent{Kind::send_output, 2, 5}, received{Kind::receive_input, 3, 5};
  CHECK(peer(sent) == received);
  CHECK(peer(received) == sent);
  const Instruction back{Kind::send_gradient, 3, 5}, taken{Kind::receive_gradient, 2, 5};
  CHECK(peer(back) == taken);
  CHECK(peer(taken) == back);
  CHECK_THROWS_WITH_AS(peer({Kind::forward, 0, 0}),
                       "[peer] only sends and receives have another end", ValueError);
}

TEST_CASE("schedules by name") {
  for (const std::string& name : schedule_names()) {
    CHECK(make_schedule(name, 3, 1, 6).name == name);
    CHECK(make_schedule(name, 3, 1, 6).training == (name != "forward"));
  }
  CHECK(make_schedule("interleaved", 2, 3, 4).lists == interleaved(2, 3, 4).lists);
  CHECK(make_schedule("forward", 2, 3, 4).lists == forward_only(2, 3, 4).lists);
  CHECK_THROWS_WITH_AS(make_schedule("2f2b", 2, 1, 4),
                       "[make_schedule] knows gpipe, 1f1b, interleaved, zb-h1, forward, got '2f2b'",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      make_schedule("zb-h1", 2, 2, 4),
      "[make_schedule] zb-h1 has one chunk a stage, got 2; interleaved takes several", ValueError);
}

TEST_CASE("impossible numbers are refused") {
  CHECK_THROWS_WITH_AS(gpipe(0, 1), "[gpipe] needs 1 or more stages, got 0", ValueError);
  CHECK_THROWS_WITH_AS(one_f_one_b(2, 0), "[1f1b] needs 1 or more microbatches, got 0", ValueError);
  CHECK_THROWS_WITH_AS(interleaved(2, -1, 2),
                       "[interleaved] needs 1 or more chunks a stage, got -1", ValueError);
  CHECK_THROWS_WITH_AS(interleaved(1, 2, 2),
                       "[interleaved] needs 2 or more stages to send between, got 1", ValueError);
  CHECK_THROWS_WITH_AS(interleaved(4, 2, 6),
                       "[interleaved] needs a multiple of 4 microbatches, as there are 4 stages, "
                       "got 6; 1f1b takes any number",
                       ValueError);
  CHECK_THROWS_AS(interleaved(4, 2, 2), ValueError);
  CHECK_THROWS_WITH_AS(forward_only(1, 3, 2),
                       "[forward] chunks are cut from one another by stages, got 3 on one",
                       ValueError);
  CHECK_THROWS_WITH_AS(zb_h1(1 << 30, 1 << 30),
                       "[zb-h1] takes at most 10000000 passes, got 1073741824 stages of 1 chunks, "
                       "1073741824 microbatches",
                       ValueError);
}
