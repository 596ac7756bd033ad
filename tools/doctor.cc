// doctor: what a job of Capstan would find here, as tables.
//
//   bazel run //tools:doctor                                     # this machine
//   mpirun --host alpha:2,beta:2 bazel-bin/tools/doctor          # each host, and what lies between
//   tools/ranks.sh -np 2 bazel-bin/tools/doctor                  # the same without MPI
//
// With several ranks, the time that a message of 8 bytes takes from one rank to another (half a
// round trip) and the bandwidth of messages of 4 MiB, for each pair: of all ranks, or, if there are
// more than 8, of the first rank of each host.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda/device.h"
#include "core/tensor.h"
#include "distributed/comm/launch.h"
#include "distributed/comm/mpi.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

// Cores that this process may use, and those that there are.
std::string cores() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  return fmt::format("{} of {}", CPU_COUNT(&mine), sysconf(_SC_NPROCESSORS_ONLN));
}

// A line of /proc/meminfo, in GiB; 0 if there is none.
double memory_gib(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == name + ":" && file >> kib) return kib / (1 << 20);
  }
  return 0;
}

// "eth0 10.1.0.1, lo 127.0.0.1": those that are up.
std::string interfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "unknown";
  std::string text;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP))
      continue;
    char address[NI_MAXHOST] = {};
    getnameinfo(one->ifa_addr, sizeof(sockaddr_in), address, sizeof address, nullptr, 0,
                NI_NUMERICHOST);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one->ifa_name, address);
  }
  freeifaddrs(all);
  return text.empty() ? "none" : text;
}

std::string describe_machine() {
  return fmt::format(
      "  cores       {}\n  memory      {:.1f} GiB, {:.1f} free\n  interfaces  {}\n  CUDA        "
      "{}\n",
      cores(), memory_gib("MemTotal"), memory_gib("MemAvailable"), interfaces(),
      cuda_description());
}

double seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Median time of a message of so many bytes between two ranks, of which this is one.
double message_time(Communicator& ranks, int other, int64_t bytes, int repetitions) {
  const Tensor message = zeros({bytes}, {.dtype = Dtype::uint8});
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = Clock::now();
    if (ranks.rank() < other) ranks.send(message, other).wait();
    ranks.recv(message, other).wait();
    if (ranks.rank() > other) ranks.send(message, other).wait();
    times.push_back(seconds(begin) / 2);
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[repetitions / 2];
}

// The ranks that are measured.
std::vector<int> measured(const Communicator& ranks, const std::vector<int>& first_of_hosts) {
  constexpr int kMost = 8;
  if (ranks.size() > kMost) return first_of_hosts;
  std::vector<int> all;
  for (int r = 0; r < ranks.size(); ++r) all.push_back(r);
  return all;
}

void measure_pairs(Communicator& ranks, const std::vector<int>& members) {
  const bool speaks = ranks.rank() == 0;
  if (speaks) fmt::print("\n{:<34} {:>10} {:>10}\n", "between ranks", "us", "GB/s");
  for (int a : members) {
    for (int b : members) {
      if (b <= a) continue;
      constexpr int64_t kMessage = 4 << 20;
      std::string line;
      if (ranks.rank() == a || ranks.rank() == b) {
        const int other = ranks.rank() == a ? b : a;
        const double small = message_time(ranks, other, 8, 101);
        const double large = message_time(ranks, other, kMessage, 11);
        line = fmt::format("{:<34} {:>10.1f} {:>10.2f}\n",
                           fmt::format("{} on {}, {} on {}", a, ranks.host(a), b, ranks.host(b)),
                           small * 1e6, static_cast<double>(kMessage) / large / 1e9);
      }
      line = ranks.broadcast_string(line, a, "measured");
      if (speaks) fmt::print("{}", line);
    }
  }
}

int run(Communicator& ranks, int, char**) {
  const bool speaks = ranks.rank() == 0;
  const auto launcher = find_launcher();
  std::vector<int> first_of_hosts;
  for (int r = 0; r < ranks.size(); ++r) {
    const bool known = std::ranges::any_of(
        first_of_hosts, [&](int first) { return ranks.host(first) == ranks.host(r); });
    if (!known) first_of_hosts.push_back(r);
  }
  const auto machines = ranks.all_gather_strings(describe_machine(), "machines");
  if (speaks) {
    fmt::print("{} rank{} on {} host{}, started by {}\n", ranks.size(), ranks.size() > 1 ? "s" : "",
               first_of_hosts.size(), first_of_hosts.size() > 1 ? "s" : "",
               launcher ? launcher->name : "nobody but you");
    fmt::print("MPI: {}\n", mpi_description());
    for (int r : first_of_hosts) fmt::print("\n{}\n{}", ranks.host(r), machines[r]);
  }
  const std::string table = preflight(ranks);
  if (speaks) fmt::print("\n{}", table);
  if (ranks.size() > 1) measure_pairs(ranks, measured(ranks, first_of_hosts));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
