// Drawings: text by hand, and what an SVG file must hold.
#include "distributed/pipeline/draw.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "tests/distributed/pipeline/schedules.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::distributed::pipeline;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using distributed::pipeline::testing::any_schedule;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("text, as wide as labels need") {
  const Schedule schedule = one_f_one_b(3, 4);
  CHECK(draw_text(schedule, simulate(schedule)) ==
        "stage 0   |F0|F1|F2|...........|B0   |F3|B1   |..|B2   |..|B3   |\n"
        "stage 1   ...|F0|F1|.....|B0   |F2|B1   |F3|B2   |..|B3   |......\n"
        "stage 2   ......|F0|B0   |F1|B1   |F2|B2   |F3|B3   |............\n");
  // Measured times need not begin at 0.
  Timeline later = simulate(schedule);
  for (auto& spans : later.stages) {
    for (Span& span : spans) span = {span.pass, span.begin + 100, span.end + 100};
  }
  CHECK(draw_text(schedule, later) == draw_text(schedule, simulate(schedule)));
}

TEST_CASE("text, in few columns") {
  const Schedule schedule = gpipe(2, 2);
  CHECK(draw_text(schedule, simulate(schedule), 18) ==
        "stage 0   |F|F|.....|B0 |B1 |\n"
        "stage 1   ..|F|F|B0 |B1 |....\n");
}

TEST_CASE("text of any schedule has rows of one length, with each pass") {
  CHECK(rc::check([] {
    const Schedule s = any_schedule();
    const std::string text = draw_text(s, simulate(s), 100000);
    const size_t row = text.find('\n') + 1;
    RC_ASSERT(text.size() == row * s.stages);
    for (int stage = 0; stage < s.stages; ++stage) {
      const std::string line = text.substr(stage * row, row);
      for (const Instruction& i : s.lists[stage]) {
        if (!is_pass(i.kind)) continue;
        const std::string label = "|" + to_string(s, i);
        RC_ASSERT(count(line, label + " ") + count(line, label + "|") == 1);
      }
    }
    RC_ASSERT(draw_text(s, simulate(s), 7).find("stage 0") == 0);
    draw_text(s, simulate(s, {0, 0, 0, 0}));  // no time at all
  }));
}

TEST_CASE("an SVG file has a box a pass, planned and measured, and the numbers beside them") {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.svg");
  const Schedule schedule = zb_h1(4, 8);
  write_drawing(
      path, schedule,
      {{"planned", simulate(schedule)}, {"measured", simulate(schedule, {1, 1, 1.5, 0})}});
  const std::string svg = read_file(path);
  CHECK(svg.find("zb-h1: stages 4, chunks a stage 1, microbatches 8") != std::string::npos);
  CHECK(svg.find("planned: 27 long, bubble 12.5 %") != std::string::npos);
  CHECK(svg.find("measured: ") != std::string::npos);
  CHECK(count(svg, "fill-opacity") == 2 * 4 * 8 * 3);
  CHECK(count(svg, ">stage 3<") == 2);
  CHECK(svg.find("of the weights") != std::string::npos);
  CHECK(svg.find(">backward<") == std::string::npos);  // it has halves only
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("what cannot be drawn is refused") {
  const TemporaryFolder folder;
  const Schedule schedule = gpipe(2, 2);
  CHECK_THROWS_WITH_AS(write_drawing(folder.file("s.svg"), schedule, {}),
                       "[write_drawing] needs a panel to draw", ValueError);
  CHECK_THROWS_WITH_AS(write_drawing(folder.file("s.svg"), schedule, {{"a", {}}}),
                       "[write_drawing] a timeline has 0 stages, gpipe has 2", ValueError);
  CHECK_THROWS_AS(
      write_drawing(folder.file("none/s.svg"), schedule, {{"planned", simulate(schedule)}}),
      IoError);
  CHECK_THROWS_WITH_AS(draw_text(schedule, simulate(schedule), 0),
                       "[draw_text] needs 1 or more columns, got 0", ValueError);
  Timeline backwards = simulate(schedule);
  backwards.stages[1][0].end = -1;
  CHECK_THROWS_WITH_AS(draw_text(schedule, backwards),
                       "[draw_text] a pass ends after it begins, got 1 to -1 for F0", ValueError);
  backwards.stages[1][0].end = std::nan("");
  CHECK_THROWS_AS(write_drawing(folder.file("s.svg"), schedule, {{"a", backwards}}), ValueError);
}
