// How much of ZeRO 3's gathers hides behind computing: a deep MLP on two ranks, a unit a layer,
// once with the next unit on its way while one computes, and once without.
//
// benchmarks/overlap.sh prefetch runs it on two hosts (tools/netlab.sh) whose link it slows so that
// gathering all units takes as long as a forward pass:
//
//   prefetch backward    prints the time of a forward pass, and the rate of such a link in kbit/s
//   prefetch compare     a table of both ways, in turns
#include <string>

#include "benchmarks/deep.h"
#include "distributed/fsdp/fsdp.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::benchmarks;

constexpr int kSteps = 12;

/// What a step takes one way, medians over the steps.
struct Way {
  Deep model;
  std::unique_ptr<Fsdp> fsdp;
  std::vector<double> pass, gathers, hidden;

  Way(Communicator& communicator, bool prefetch)
      : fsdp(std::make_unique<Fsdp>(model, communicator, FsdpOptions{.prefetch = prefetch})) {}

  void step(const Tensor& x) {
    for (const auto& [_, part] : fsdp->parameters()) zero_grad(part);
    const Overlap before = fsdp->gather_overlap();  // over all steps
    pass.push_back(seconds_of([&] { fsdp->backward(model(x)); }));
    const Overlap now = {fsdp->gather_overlap().communication - before.communication,
                         fsdp->gather_overlap().exposed - before.exposed};
    gathers.push_back(now.communication);
    hidden.push_back(now.hidden());
  }
};

int run(Communicator& communicator, int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  set_thread_count(1);
  const Tensor x = randn({kBatch, kWidth});
  if (what == "backward") {
    Deep model;
    std::vector<double> times;
    for (int i = 0; i < kSteps; ++i) times.push_back(seconds_of([&] { model(x); }));
    print_link(times, model, static_cast<double>(communicator.size() - 1) / communicator.size(),
               communicator);
    return 0;
  }
  if (what != "compare") {
    fmt::print(stderr, "usage: prefetch backward | compare\n");
    return 2;
  }
  Way ahead(communicator, true), when_needed(communicator, false);
  for (int i = 0; i < kSteps; ++i) {
    ahead.step(x);
    when_needed.step(x);
  }
  if (communicator.rank() != 0) return 0;
  fmt::print("{:24}{:>12}{:>14}{:>10}\n", "", "a pass, ms", "gathers, ms", "hidden");
  for (auto& [name, way] :
       {std::pair{"the next unit ahead", &ahead}, {"when it is needed", &when_needed}}) {
    fmt::print("{:24}{:>12.1f}{:>14.1f}{:>9.0f}%\n", name, 1e3 * median(way->pass),
               1e3 * median(way->gathers), 100 * median(way->hidden));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
