// Implements the names of algorithms and the choice among them.
#include "distributed/comm/algorithm.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

// Up to so many bytes, this algorithm was the fastest on so many ranks of so many hosts.
struct Row {
  int hosts, ranks;
  int64_t bytes;
  Algorithm algorithm;
};

constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();

constexpr Row kTable[] = {
#include "distributed/comm/all_reduce_table.inc"
};

constexpr const char* kNames[] = {
    "automatic", "ring", "halving_doubling", "tree", "shared_memory", "hierarchical", "mpi"};

}  // namespace

std::string to_string(Algorithm algorithm) {
  const auto index = static_cast<size_t>(algorithm);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string algorithm_names() { return fmt::format("{}", fmt::join(kNames, ", ")); }

Algorithm algorithm_of(const std::string& name) {
  const auto found = std::ranges::find(kNames, name);
  if (found != std::end(kNames)) return static_cast<Algorithm>(found - std::begin(kNames));
  raise<ValueError>("[all_reduce] an algorithm is one of {}; got '{}'", algorithm_names(), name);
}

Algorithm tuned_algorithm(int hosts, int ranks, int64_t bytes) {
  const auto distance = [&](const Row& row) {
    const auto between = [](int a, int b) { return std::abs(std::log(a) - std::log(b)); };
    return std::tuple((row.hosts == 1) != (hosts == 1), between(row.ranks, ranks),
                      between(row.hosts, hosts));
  };
  // (The first of several is the one for the least sizes.)
  const auto nearest = std::ranges::min_element(kTable, {}, distance);
  return std::find_if(nearest, std::end(kTable), [&](const Row& row) { return bytes <= row.bytes; })
      ->algorithm;
}

}  // namespace capstan::distributed
