// An optimizer's step over many small parameters: all in one parallel loop, as Optimizer::step()
// runs it, beside one loop for each, and beside one parameter of as many elements.
//
//   benchmarks/optimizer_step [threads]
#include <fmt/format.h>

#include <cstdlib>

#include "autograd/node.h"
#include "benchmarks/timing.h"
#include "core/random.h"
#include "core/threads.h"
#include "optim/adamw.h"

using namespace capstan;
using namespace capstan::benchmarks;

namespace {

NamedTensors parameters(int64_t count, int64_t size) {
  NamedTensors parameters;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor parameter = require_grad(randn({size}));
    accumulator(parameter).set_grad(randn({size}));
    parameters.emplace_back(std::to_string(i), parameter);
  }
  return parameters;
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  for (const auto& [count, size] :
       {std::pair<int64_t, int64_t>{1000, 64}, {300, 1000}, {100, 20'000}}) {
    optim::AdamW together(parameters(count, size)), one(parameters(1, count * size));
    std::vector<optim::AdamW> each;
    for (const auto& named : parameters(count, size)) each.push_back(optim::AdamW({named}));
    const auto [all, apart] = median_seconds_of_two([&] { together.step(1e-3); },
                                                    [&] {
                                                      for (auto& single : each) single.step(1e-3);
                                                    });
    fmt::print(
        "AdamW, {:4} parameters of {:5}: together {:8.1f} us, apart {:8.1f} us, as one {:8.1f} "
        "us\n",
        count, size, 1e6 * all, 1e6 * apart, 1e6 * median_seconds([&] { one.step(1e-3); }));
  }
}
