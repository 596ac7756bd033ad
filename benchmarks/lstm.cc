// A step of one LSTM layer, forward and backward, beside the matrix products that it cannot do
// without. 64 elements, batch 32, width 256, float32; [threads] as argument, 1 without.
//
// For PyTorch, 1 thread:
//   torch.set_num_threads(1); lstm = torch.nn.LSTM(256, 256); x = torch.randn(64, 32, 256)
//   x.requires_grad_(); lstm(x)[0].sum().backward()
#include <fmt/format.h>

#include <cstdlib>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "benchmarks/timing.h"
#include "core/backend.h"
#include "core/random.h"
#include "nn/recurrent.h"

using namespace capstan;
using namespace capstan::benchmarks;

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  const int64_t n = 64, batch = 32, width = 256;
  nn::LSTM lstm(width, width);
  nn::GRU gru(width, width);
  const Tensor x = require_grad(randn({n, batch, width}));
  const auto step = [&](auto& net) {
    net.zero_grad();
    zero_grad(x);
    backward(sum(net(x).out));
  };

  // The gates of all elements, of one, and the gradients of weight and input: [m, k] times [k, n].
  const auto product = [](int64_t m, int64_t k, int64_t n) {
    return [a = randn({m, k}), b = randn({k, n}), out = empty({m, n})] {
      backend(out).matmul(a, b, out);
    };
  };
  const auto all = product(n * batch, width, 4 * width), one = product(batch, width, 4 * width);
  const auto back = product(batch, 4 * width, width), input = product(n * batch, 4 * width, width);
  const auto weight = product(4 * width, n * batch, width);
  const auto products = [&] {
    all();
    for (int64_t i = 0; i < n; ++i) one();
    for (int64_t i = 0; i < n; ++i) back();
    weight();
    weight();
    input();
  };
  const auto [ours, bare] = median_seconds_of_two([&] { step(lstm); }, products, 4);
  fmt::print("LSTM  {:7.1f} ms   its products {:7.1f} ms   {:.2f}\n", 1e3 * ours, 1e3 * bare,
             ours / bare);
  fmt::print("GRU   {:7.1f} ms\n", 1e3 * median_seconds([&] { step(gru); }, 2));
}
