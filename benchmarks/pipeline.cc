// How long the stages of a pipeline are idle, measured beside what was planned: stages of equal
// work, which is to sleep, so that two cores suffice for any number of them.
//
//   pipeline [stages 4] [microbatches 8] [milliseconds of a pass 20] [folder for drawings]
//
// A row a schedule: the bubble (idle time over working time) by the formula of its paper, as
// simulated, and as measured (the median of some steps); and what the first and the last stage kept
// at most.
// With a folder, SCHEDULE.svg shows the planned and a measured step, one above the other.
#include "distributed/pipeline/pipeline.h"

#include <fmt/format.h>

#include <string>
#include <thread>

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "benchmarks/timing.h"
#include "distributed/comm/launch.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/pipeline/draw.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::pipeline;

constexpr int kSteps = 5;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// x, after a while; as are the gradients of x and of the weight.
Tensor slowly(const Tensor& x, const Tensor& weight, double seconds) {
  if (x.device().kind == Device::Kind::cpu) sleep(seconds);
  return record("slowly", dense_copy(x), inputs(x, weight), [=](const Tensor& grad, Wanted wanted) {
    sleep(seconds * (wanted[0] + wanted[1]));
    return gradients(grad, wanted[1] ? zeros({}) : Tensor());
  });
}

/// A parameter as a module.
struct Sleeper : nn::Module {
  nn::Parameter weight{zeros({})};
  CAPSTAN_MODULE(Sleeper, weight)
  Tensor forward(const Tensor& x) { return x + weight; }
};

/// A layer for each chunk that takes its part of a stage's time, and one before them, so that the
/// first stage has gradients to compute like any other.
struct Model : nn::Module {
  nn::ModuleList<Sleeper> sleepers;
  double seconds;
  CAPSTAN_MODULE(Model, sleepers)

  Model(int chunks, double seconds) : sleepers(chunks + 1), seconds(seconds) {}
  nn::Layers layers() {
    nn::Layers layers;
    for (size_t i = 0; i < sleepers.size(); ++i) {
      Sleeper& sleeper = sleepers[i];
      const auto run = [this, &sleeper, i](const Tensor& x) {
        return i == 0 ? sleeper(x) : slowly(x, sleeper.weight, seconds);
      };
      layers.emplace_back(fmt::format("sleepers.{}", i), run, std::vector<nn::Module*>{&sleeper});
    }
    return layers;
  }
  Tensor forward(const Tensor& x) { return nn::forward(layers(), x); }
};

struct Row {
  std::string schedule;
  int chunks;
  double formula;  // the bubble
};

void measure(const Row& row, int stages, int microbatches, double seconds,
             const std::string& folder) {
  const int chunks = stages * row.chunks;
  std::vector<int> live(stages);
  run_ranks(stages, [&](Communicator& comm) {
    Model model(chunks, seconds / row.chunks);
    const auto self = make_self();
    Cut cut(chunks, 1);
    cut[0] = 2;
    Pipeline pipeline(
        nn::Chain(model), comm,
        {.schedule = row.schedule,
         .chunks = row.chunks,
         .microbatches = microbatches,
         .loss = [](const Tensors& outputs, const Tensors&) { return mean(outputs[0]); },
         .cut = cut},
        [&](nn::Module& chunk) { return std::make_unique<Ddp>(chunk, *self); });
    pipeline.time_runs();
    const Tensor x = zeros({microbatches, 1});
    std::vector<double> bubbles;
    std::vector<Timeline> timelines;
    for (int step = 0; step <= kSteps; ++step) {
      pipeline.run(split({x}, {}, microbatches));
      for (const auto& [_, parameter] : pipeline.parameters()) zero_grad(parameter);
      if (step == 0) continue;  // warms up
      timelines.push_back(pipeline.timeline());
      bubbles.push_back(timelines.back().bubble());
    }
    live[comm.rank()] = pipeline.peak_live();
    comm.barrier().wait();
    if (comm.rank() != 0) return;
    std::vector<double> sorted = bubbles;
    const double measured = benchmarks::median(sorted);
    const Timeline planned = simulate(pipeline.schedule(), Durations{seconds, seconds, seconds});
    fmt::print("{:<16}{:>10.1f}{:>11.1f}{:>10.1f}{:>18.2f}{:>8} to {}\n",
               row.chunks == 1 ? row.schedule : fmt::format("{}, v = {}", row.schedule, row.chunks),
               100 * row.formula, 100 * planned.bubble(), 100 * measured, measured / row.formula,
               live.front(), live.back());
    if (folder.empty()) return;
    const size_t middle = std::ranges::find(bubbles, measured) - bubbles.begin();
    write_drawing(fmt::format("{}/{}.svg", folder, row.schedule), pipeline.schedule(),
                  {{"planned, in seconds", planned}, {"measured, in seconds", timelines[middle]}});
  });
}

int run(Communicator&, int argc, char** argv) {
  const int stages = argc > 1 ? std::stoi(argv[1]) : 4;
  const int microbatches = argc > 2 ? std::stoi(argv[2]) : 8;
  const double seconds = (argc > 3 ? std::stod(argv[3]) : 20) / 1000;
  const std::string folder = argc > 4 ? argv[4] : "";
  const double ideal = (stages - 1.0) / microbatches;
  fmt::print("{} stages, {} microbatches, {} ms each for F, I and W\n\n", stages, microbatches,
             1000 * seconds);
  fmt::print("{:<16}{:>10}{:>11}{:>10}{:>18}{:>12}\n", "bubble, %", "formula", "simulated",
             "measured", "measured/formula", "keeps");
  measure({"gpipe", 1, ideal}, stages, microbatches, seconds, folder);
  measure({"1f1b", 1, ideal}, stages, microbatches, seconds, folder);
  measure({"interleaved", 2, ideal / 2}, stages, microbatches, seconds, folder);
  measure({"zb-h1", 1, ideal / 3}, stages, microbatches, seconds, folder);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
