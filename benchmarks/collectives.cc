// All-reduces by each algorithm, and the other collectives: the time of one call for each size.
//
//   tools/mpirun.sh -np 2 bazel-bin/benchmarks/collectives
//   tools/mpirun.sh -np 4 bazel-bin/benchmarks/collectives --tune
//   distributed/comm/all_reduce_table.inc
//
// "in place" is a tensor in memory that the ranks share, "mpi" is MPI_Allreduce in place. "busy us"
// is the time of a call in place whose caller computes until it is done, "lost us" the computing
// that did not get done meanwhile. On a machine that does other things as well, "lost us" means
// little.
//
// --tune measures the all-reduces only, and writes what `automatic` takes on as many ranks and
// hosts into that file, in the place of what it said about them; the next build uses it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/raise.h"
#include "distributed/comm/launch.h"
#include "distributed/comm/mpi.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Time of one fn() on the slowest rank: the lower quartile of several samples, since what else runs
// on a machine only makes them longer. Short calls are made many times in a row, so that it does
// not count how ranks wake up together.
double time_of(Communicator& ranks, int64_t bytes, const std::function<void()>& fn) {
  const int samples = bytes > (8 << 20) ? 9 : 21, calls = bytes > (100 << 10) ? 1 : 50;
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    ranks.barrier().wait();
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) fn();
    times.push_back(seconds_since(start) / calls);
  }
  std::nth_element(times.begin(), times.begin() + samples / 4, times.end());
  const Tensor slowest = full({}, times[samples / 4], {.dtype = Dtype::float64});
  ranks.reduce(slowest, 0, Reduce::max).wait();
  return slowest.item<double>();  // on rank 0
}

int count_hosts(const Communicator& ranks) {
  std::set<std::string> names;
  for (int r = 0; r < ranks.size(); ++r) names.insert(ranks.host(r));
  return static_cast<int>(names.size());
}

// Those that these ranks can run.
std::vector<Algorithm> algorithms_for(const Communicator& ranks) {
  std::vector<Algorithm> algorithms;
  for (Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::automatic) continue;
    if (algorithm == Algorithm::shared_memory && count_hosts(ranks) > 1) continue;
    if (algorithm == Algorithm::mpi && !mpi_is_running()) continue;
    algorithms.push_back(algorithm);
  }
  return algorithms;
}

double time_of_all_reduce(Communicator& ranks, Algorithm algorithm, const Tensor& tensor) {
  ranks.set_all_reduce(algorithm);
  return time_of(ranks, tensor.bytes(), [&] { ranks.all_reduce(tensor).wait(); });
}

// Some 5 us of arithmetic in the first-level cache.
void compute() {
  static thread_local float values[1024] = {1};
  for (int i = 0; i < 16; ++i) {
    for (float& v : values) v = v * 0.999f + 0.5f;
  }
  asm volatile("" : : "r"(values) : "memory");
}

// An all-reduce in place, while computing: its time, and the time of the units of work that were
// not done until its end.
std::pair<double, double> time_while_computing(Communicator& ranks, const Tensor& shared) {
  const double unit = time_of(ranks, 0, compute);
  double lost = 0;
  int calls = 0;
  const double busy = time_of(ranks, shared.bytes(), [&] {
    const auto start = Clock::now();
    const Work work = ranks.all_reduce(shared);
    int64_t units = 0;
    for (; !work.done(); ++units) compute();
    lost += seconds_since(start) - static_cast<double>(units) * unit;
    ++calls;
  });
  return {busy, lost / calls};
}

void measure_all_reduces(Communicator& ranks) {
  const bool speaks = ranks.rank() == 0;
  const auto say = [&](const std::string& text) {
    if (speaks) fmt::print("{:>21}", text);
  };
  const auto algorithms = algorithms_for(ranks);
  say("bytes");
  for (Algorithm algorithm : algorithms) say(to_string(algorithm) + " us");
  for (const char* title : {"in place us", "busy us", "lost us\n"}) say(title);
  for (int64_t bytes : {4LL, 4LL << 10, 250LL << 10, 1700LL << 10, 25LL << 20, 100LL << 20}) {
    const Tensor tensor = full({bytes / 4}, 1.0), shared = ranks.shared_zeros({bytes / 4});
    say(fmt::format("{}", bytes));
    for (Algorithm algorithm : algorithms) {
      say(fmt::format("{:.1f}", time_of_all_reduce(ranks, algorithm, tensor) * 1e6));
    }
    say(fmt::format("{:.1f}", time_of_all_reduce(ranks, Algorithm::automatic, shared) * 1e6));
    const auto [busy, lost] = time_while_computing(ranks, shared);
    say(fmt::format("{:.1f}", busy * 1e6));
    say(fmt::format("{:.1f}\n", lost * 1e6));
  }
}

void measure_others(Communicator& ranks) {
  const bool speaks = ranks.rank() == 0;
  const char* names[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"};
  if (speaks) fmt::print("\n{:>21}", "bytes");
  for (const char* name : names) {
    if (speaks) fmt::print("{:>21}", fmt::format("{} us", name));
  }
  for (int64_t bytes : {4LL << 10, 250LL << 10, 25LL << 20}) {
    const int64_t part = bytes / 4 / ranks.size();
    const Tensor whole = full({part * ranks.size()}, 1.0), other = full({part * ranks.size()}, 1.0),
                 mine = full({part}, 1.0);
    const std::function<Work()> calls[] = {[&] { return ranks.broadcast(whole, 0); },
                                           [&] { return ranks.reduce(whole, 0); },
                                           [&] { return ranks.all_gather(mine, whole); },
                                           [&] { return ranks.reduce_scatter(whole, mine); },
                                           [&] { return ranks.all_to_all(whole, other); }};
    if (speaks) fmt::print("\n{:>21}", whole.bytes());
    for (const auto& call : calls) {
      const double time = time_of(ranks, bytes, [&] { call().wait(); });
      if (speaks) fmt::print("{:>21.1f}", time * 1e6);
    }
  }
  if (speaks) fmt::print("\n");
}

// The rows of the table for these ranks. A size takes the algorithm of the one before unless
// another is a tenth faster, so that noise makes no rows; a row ends halfway to the next size.
std::string tune(Communicator& ranks) {
  const std::vector<int64_t> sizes = {256, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
  std::string rows, row;
  Algorithm before = Algorithm::automatic;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Tensor tensor = full({sizes[i] / 4}, 1.0);
    std::string times;
    double least = 0, of_before = 0;
    Algorithm best = before;
    for (Algorithm algorithm : algorithms_for(ranks)) {
      const double time = time_of_all_reduce(ranks, algorithm, tensor);
      times += fmt::format(", {} {:.1f}", to_string(algorithm), time * 1e6);
      if (algorithm == Algorithm::mpi) continue;  // for comparison
      if (algorithm == before) of_before = time;
      if (least == 0 || time < least) {
        least = time;
        best = algorithm;
      }
    }
    if (before != Algorithm::automatic && least > 0.9 * of_before) best = before;
    if (best != before) rows += row;
    before = best;
    const bool last = i + 1 == sizes.size();
    const std::string limit =
        last ? "kAnySize"
             : fmt::format("{:.0f}", std::sqrt(static_cast<double>(sizes[i] * sizes[i + 1])));
    row = fmt::format("{{{}, {}, {}, Algorithm::{}}},  // us at {}{}\n", count_hosts(ranks),
                      ranks.size(), limit, to_string(best), sizes[i], times);
  }
  return rows + row;
}

// What the file says, but for the rows of as many ranks and hosts as these.
std::string rows_of_others(const Communicator& ranks, const std::string& path) {
  std::ifstream file(path);
  if (!file) raise<IoError>("[tune] cannot read {}", path);
  const std::string ours = fmt::format("{{{}, {}, ", count_hosts(ranks), ranks.size());
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(ours)) text += line + "\n";
  }
  check_writable(path);
  return text;
}

int run(Communicator& ranks, int argc, char** argv) {
  const bool tunes = argc == 3 && std::string(argv[1]) == "--tune";
  if (ranks.size() == 1 || (argc > 1 && !tunes)) {
    if (ranks.rank() == 0) fmt::print("usage: on 2 ranks or more, collectives [--tune FILE]\n");
    return 1;
  }
  if (tunes) {
    std::string others;  // read before the minutes that measuring takes
    ranks.together("table", [&] {
      if (ranks.rank() == 0) others = rows_of_others(ranks, argv[2]);
    });
    const std::string rows = tune(ranks);
    if (ranks.rank() == 0) fmt::print("{}", rows);
    ranks.together("table", [&] {
      if (ranks.rank() == 0)
        write_atomically(argv[2], [&](std::ostream& out) { out << others << rows; });
    });
    return 0;
  }
  measure_all_reduces(ranks);
  measure_others(ranks);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
