// DataParallel beside DDP: one step of an MLP, on one device, on n devices of one process, and on n
// ranks (threads, too, so that the machine is the same), with what moves between them.
//
//   bazel-bin/benchmarks/data_parallel [devices]
//
// "model MB" is weights and gradients that moved in one step, over all devices: DataParallel copies
// the model to each and the gradients back; of DDP's only gradients move, and no one device has to
// send or receive more than the others ("busiest MB").
#include "distributed/data_parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <mutex>

#include "autograd/elementwise.h"
#include "autograd/softmax.h"
#include "benchmarks/timing.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/linear.h"
#include "optim/sgd.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

constexpr int kSteps = 21;
constexpr int64_t kBatch = 128;  // over all devices

struct Mlp : nn::Module {
  nn::Linear in{784, 1024}, middle{1024, 1024}, out{1024, 10};
  CAPSTAN_MODULE(Mlp, in, middle, out)
  Tensor forward(const Tensor& x) { return out(relu(middle(relu(in(x))))); }
};

/// The median time of a step after the first, in milliseconds.
template <class F>
double milliseconds(const F& step) {
  std::vector<double> times;
  for (int i = 0; i < kSteps; ++i) {
    const auto begin = Clock::now();
    step();
    times.push_back(1e3 * std::chrono::duration<double>(Clock::now() - begin).count());
  }
  times.erase(times.begin());
  return benchmarks::median(times);
}

struct Row {
  double time = 0;     // of a step, in milliseconds
  double moved = 0;    // in a step, in bytes: weights and gradients, over all devices
  double busiest = 0;  // of it, through one device
};

/// A step of `call` with loss and optimizer as every trainer has them.
template <class Call, class Backward>
double time_steps(Mlp& model, int64_t samples, const Call& call, const Backward& run_backward) {
  const Tensor x = randn({samples, 784});
  const Tensor y = randint({samples}, 0, 10);
  optim::Sgd sgd(model.parameters(), {.momentum = 0.9});
  return milliseconds([&] {
    run_backward(cross_entropy(call(x), y));
    sgd.step(0.01);
    sgd.zero_grad();
  });
}

const auto plain_backward = [](const Tensor& loss) { backward(loss); };

Row one_device() {
  Mlp model;
  return {time_steps(
      model, kBatch, [&](const Tensor& x) { return model(x); }, plain_backward)};
}

Row data_parallel(int n) {
  Mlp model;
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.push_back(Device::cpu(i));
  DataParallel parallel(model, devices);
  Row row;
  row.time = time_steps(model, kBatch, std::ref(parallel), plain_backward);
  row.moved =
      static_cast<double>(parallel.traffic().models + parallel.traffic().gradients) / kSteps;
  row.busiest = row.moved;  // all of it leaves from or arrives at the primary
  return row;
}

Row ddp(int n, const CommOptions& options) {
  Row row;
  std::mutex mutex;
  const auto rank = [&](Communicator& communicator) {
    Mlp model;
    Ddp strategy(model, communicator);
    const int64_t before = communicator.traffic().bytes_sent;
    const double time = time_steps(
        model, kBatch / n, [&](const Tensor& x) { return model(x); },
        [&](const Tensor& loss) { strategy.backward(loss, kBatch / n); });
    const auto sent = static_cast<double>(communicator.traffic().bytes_sent - before) / kSteps;
    const std::lock_guard lock(mutex);
    row.time = std::max(row.time, time);
    row.moved += sent;
    row.busiest = std::max(row.busiest, 2 * sent);  // what it sends it also receives
  };
  run_ranks(n, rank, options);
  return row;
}

void print(const char* what, const Row& row) {
  fmt::print("{:<36}{:>10.1f}{:>12.0f}{:>12.1f}{:>14.1f}\n", what, row.time,
             1e3 * kBatch / row.time, row.moved / 1e6, row.busiest / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2;
  if (n < 1 || n > kBatch) {
    fmt::print("the number of devices is in [1, {}]\n", kBatch);
    return 1;
  }
  set_thread_count(1);  // so that devices do not share their cores' threads
  fmt::print("MLP 784-1024-1024-10, batch {} over {} devices, one thread each\n", kBatch, n);
  fmt::print("{:<36}{:>10}{:>12}{:>12}{:>14}\n", "", "ms a step", "samples/s", "model MB",
             "busiest MB");
  print("one device", one_device());
  print("DataParallel", data_parallel(n));
  print("DDP, ring through messages",
        ddp(n, {.all_reduce = Algorithm::ring, .share_memory = false}));
  print("DDP, as it chooses (memory is shared)", ddp(n, {}));
}
