// All-reduce, ours against MPI's own in place: bandwidth and latency for each size, of an ordinary
// tensor (through stages) and of one in memory that the ranks share.
//
//   tools/mpirun.sh -np 2 bazel-bin/benchmarks/all_reduce
//
// "GB/s" is the tensor's bytes over the time of one call, ratios are those to MPI's. "busy us" is
// the time of a call in shared memory whose caller computes until it is done, "lost us" the
// computing that did not get done meanwhile. On a machine that does other things as well, "lost us"
// means little.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "distributed/comm/launch.h"
#include "distributed/comm/mpi.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Median time of fn() over some repetitions; the ranks start together.
template <class F>
double time_of(int repetitions, const F& fn) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    fn();
    times.push_back(seconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[repetitions / 2];
}

// Some 5 us of arithmetic in the first-level cache.
void compute() {
  static thread_local float values[1024] = {1};
  for (int i = 0; i < 16; ++i) {
    for (float& v : values) v = v * 0.999f + 0.5f;
  }
  asm volatile("" : : "r"(values) : "memory");
}

int run(Communicator& communicator, int, char**) {
  if (!mpi_is_running()) {
    fmt::print("start it under mpirun with 2 ranks or more\n");
    return 1;
  }
  const bool speaks = communicator.rank() == 0;
  if (speaks) {
    fmt::print("{:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10} {:>8} {:>8} {:>10} {:>10}\n",
               "bytes", "staged us", "shared us", "MPI us", "staged GB/s", "shared", "MPI",
               "staged", "shared", "busy us", "lost us");
  }
  preflight(communicator);
  for (int64_t bytes : {4LL, 4LL << 10, 250LL << 10, 1700LL << 10, 25LL << 20, 100LL << 20}) {
    const int64_t count = bytes / 4;
    const Tensor tensor = full({count}, 1.0);
    float* data = tensor.mutable_data<float>();
    const int repetitions = bytes > (8 << 20) ? 9 : 101;
    const Tensor shared = communicator.shared_zeros({count});
    const double staged = time_of(repetitions, [&] { communicator.all_reduce(tensor).wait(); });
    const double direct = time_of(repetitions, [&] { communicator.all_reduce(shared).wait(); });
    const double mpi = time_of(repetitions, [&] {
      MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
    // While computing: count the units of work until the call is done, and what they would have
    // taken.
    const double unit = time_of(9,
                                [] {
                                  for (int i = 0; i < 1000; ++i) compute();
                                }) /
                        1000;
    double lost = 0;
    const double busy = time_of(repetitions, [&] {
      const auto start = Clock::now();
      const Work work = communicator.all_reduce(shared);
      int64_t units = 0;
      for (; !work.done(); ++units) compute();
      lost += seconds_since(start) - static_cast<double>(units) * unit;
    });
    if (speaks) {
      fmt::print(
          "{:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>11.3f} {:>10.3f} {:>10.3f} {:>8.2f} {:>8.2f} "
          "{:>10.1f} {:>10.1f}\n",
          bytes, staged * 1e6, direct * 1e6, mpi * 1e6, bytes / staged / 1e9, bytes / direct / 1e9,
          bytes / mpi / 1e9, mpi / staged, mpi / direct, busy * 1e6, lost / repetitions * 1e6);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
