// How much of DDP's communication hides behind backward: a deep MLP on two ranks, once with a
// bucket a layer, which leave while backward goes on, and once with a single bucket, which leaves
// when backward is done.
//
// benchmarks/overlap.sh runs it on two hosts (tools/netlab.sh) whose link it slows so that the
// communication of a step takes as long as a backward pass:
//
//   overlap backward    prints the time of a backward pass, and the rate of such a link in kbit/s
//   overlap compare     a table of both ways of sending, in turns
#include <string>

#include "benchmarks/deep.h"
#include "distributed/ddp.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::benchmarks;

constexpr int kSteps = 15;

/// What a step takes one way, medians over the steps.
struct Way {
  Deep model;
  std::unique_ptr<Ddp> ddp;
  std::vector<double> backward, communication, hidden;

  Way(Communicator& communicator, int64_t bucket_bytes)
      : ddp(std::make_unique<Ddp>(
            model, communicator,
            DdpOptions{.first_bucket_bytes = bucket_bytes, .bucket_bytes = bucket_bytes})) {}

  void step(const Tensor& x) {
    for (const auto& [_, parameter] : model.parameters()) zero_grad(parameter);
    const Tensor loss = model(x);
    const Overlap before = ddp->overlap();  // over all steps
    backward.push_back(seconds_of([&] { ddp->backward(loss); }));
    const Overlap now = {ddp->overlap().communication - before.communication,
                         ddp->overlap().exposed - before.exposed};
    communication.push_back(now.communication);
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
    for (int i = 0; i < kSteps; ++i) {
      for (const auto& [_, parameter] : model.parameters()) zero_grad(parameter);
      const Tensor loss = model(x);
      times.push_back(seconds_of([&] { backward(loss); }));
    }
    print_link(times, model, 2.0 * (communicator.size() - 1) / communicator.size(), communicator);
    return 0;
  }
  if (what != "compare") {
    fmt::print(stderr, "usage: overlap backward | compare\n");
    return 2;
  }
  constexpr int64_t kLayerBytes = 4 * kWidth * (kWidth + 1);
  Way by_layer(communicator, kLayerBytes), at_the_end(communicator, kLayers * kLayerBytes);
  for (int i = 0; i < kSteps; ++i) {
    by_layer.step(x);
    at_the_end.step(x);
  }
  if (communicator.rank() != 0) return 0;
  fmt::print("{:24}{:>14}{:>18}{:>10}\n", "", "backward, ms", "communication, ms", "hidden");
  for (auto& [name, way] :
       {std::pair{"a bucket a layer", &by_layer}, {"one bucket at the end", &at_the_end}}) {
    fmt::print("{:24}{:>14.1f}{:>18.1f}{:>9.0f}%\n", name, 1e3 * median(way->backward),
               1e3 * median(way->communication), 100 * median(way->hidden));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
