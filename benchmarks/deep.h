// Defines what the benchmarks of hidden communication share (overlap.cc, prefetch.cc): a deep MLP,
// and the link on which something takes as long to send as something else to compute.
#pragma once

#include <fmt/format.h>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "benchmarks/timing.h"
#include "core/random.h"
#include "distributed/comm/launch.h"
#include "nn/linear.h"

namespace capstan::benchmarks {

inline constexpr int64_t kLayers = 16, kWidth = 512, kBatch = 768;

struct Deep : nn::Module {
  nn::ModuleList<nn::Linear> layers;
  CAPSTAN_MODULE(Deep, layers)

  Deep() {
    for (int64_t i = 0; i < kLayers; ++i) layers.emplace_back(kWidth, kWidth);
  }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = relu(layer(x));
    return sum(square(x));
  }
};

/// Seconds that pass, whoever computes: ranks wait for one another.
double seconds_of(const auto& f) {
  const auto begin = distributed::Clock::now();
  f();
  return std::chrono::duration<double>(distributed::Clock::now() - begin).count();
}

/// Prints the mean over the ranks of the median of `times`, in ms, and the rate in kbit/s of a link
/// that sends `share` times the bytes of a model's parameters in that time.
inline void print_link(std::vector<double>& times, Deep& model, double share,
                       distributed::Communicator& communicator) {
  const Tensor time = full({}, median(times), {.dtype = Dtype::float64});
  communicator.all_reduce(time, distributed::Reduce::mean).wait();
  const double bytes = 4.0 * static_cast<double>(model.parameter_count());
  if (communicator.rank() == 0) {
    fmt::print("{:.1f} {:.0f}\n", 1e3 * time.item<double>(),
               8e-3 * bytes * share / time.item<double>());
  }
}

}  // namespace capstan::benchmarks
