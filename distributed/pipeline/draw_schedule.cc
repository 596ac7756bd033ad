// draw_schedule: prints what a pipeline's schedule costs, and draws it. See --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "distributed/pipeline/check.h"
#include "distributed/pipeline/draw.h"

using namespace capstan::distributed::pipeline;

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Draws the schedule of a pipeline, simulated with equal stages:\n"
      "  draw_schedule --schedule 1f1b --stages 4 --microbatches 8");
  app.option_defaults()->always_capture_default();
  std::string name = "1f1b", svg;
  int stages = 4, chunks = 1, microbatches = 8, columns = 120;
  Durations times;
  bool list = false;
  app.add_option("--schedule", name, fmt::format("{}", fmt::join(schedule_names(), ", ")));
  app.add_option("--stages", stages, "Ranks that the model is cut for");
  app.add_option("--chunks", chunks, "Parts of the model on each stage");
  app.add_option("--microbatches", microbatches, "Parts of a batch");
  app.add_option("--forward", times.forward, "Time of a stage's forward pass");
  app.add_option("--backward-input", times.backward_input, "... of the first half of backward");
  app.add_option("--backward-weight", times.backward_weight, "... of the second half");
  app.add_option("--transfer", times.transfer, "... of a message");
  app.add_option("--columns", columns, "Width of the drawing")->check(CLI::Range(1, 10000));
  app.add_option("--svg", svg, "File to draw to, too");
  app.add_flag("--list", list, "Print all instructions of each stage");
  CLI11_PARSE(app, argc, argv);

  const Schedule schedule = make_schedule(name, stages, chunks, microbatches);
  const Timeline timeline = simulate(schedule, times);
  fmt::print("{}", list ? to_string(schedule) : draw_text(schedule, timeline, columns));
  fmt::print("\nstage      busy      idle  keeps at most\n");
  const std::vector<int> live = peak_live(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    fmt::print("{:>5}{:>10.6g}{:>10.6g}{:>15}\n", stage, timeline.busy(stage), timeline.idle(stage),
               live[stage]);
  }
  fmt::print("makespan {:.6g}, bubble {:.4g} %\n", timeline.makespan(), 100 * timeline.bubble());
  if (!svg.empty()) write_drawing(svg, schedule, {{"planned", timeline}});
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const capstan::Error& error) {
    fmt::print(stderr, "draw_schedule: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
