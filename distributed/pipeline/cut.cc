#include "distributed/pipeline/cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/costs.h"
#include "core/raise.h"

namespace capstan::distributed::pipeline {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Cuts layers of these costs into parts, so that combine() over the parts, from the first to the
/// last, is the least: best[k][i], of the first i layers in k parts, is the least over j of
/// combine(best[k - 1][j], cost of the layers from j to i), and from[k][i] is that j.
template <class Combine>
std::pair<double, Cut> least(std::span<const double> costs, int64_t parts, Combine combine) {
  const int64_t layers = std::ssize(costs);
  std::vector<double> sums(layers + 1);  // of the first i layers
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  std::vector best(parts + 1, std::vector<double>(layers + 1, kNever));
  std::vector from(parts + 1, std::vector<int64_t>(layers + 1));
  best[0][0] = 0;
  for (int64_t k = 1; k <= parts; ++k) {
    for (int64_t i = k; i <= layers; ++i) {
      for (int64_t j = k - 1; j < i; ++j) {
        const double value = combine(best[k - 1][j], sums[i] - sums[j]);
        if (value >= best[k][i]) continue;  // of equal ones, the first j: the largest last part
        best[k][i] = value;
        from[k][i] = j;
      }
    }
  }
  Cut cut(parts);
  for (int64_t k = parts, end = layers; k > 0; --k) {
    cut[k - 1] = end - from[k][end];
    end = from[k][end];
  }
  return {best[parts][layers], cut};
}

}  // namespace

Cut cut_by_list(int64_t layers, std::span<const int64_t> sizes) {
  int64_t left = layers;
  for (int64_t size : sizes) left = size >= 1 && size <= left ? left - size : -1;
  if (left != 0 || sizes.empty()) {
    raise<ValueError>("[cut_by_list] parts of 1 or more layers must add up to {}, got {}", layers,
                      fmt::join(sizes, ", "));
  }
  return {sizes.begin(), sizes.end()};
}

Cut cut_evenly(int64_t layers, int64_t parts) {
  if (parts < 1 || layers < 1 || layers % parts != 0) {
    raise<ValueError>(
        "[cut_evenly] {} layers cannot be cut into {} parts of the same number; cut_by_list and "
        "cut_balanced take any",
        layers, parts);
  }
  return Cut(parts, layers / parts);
}

Cut cut_balanced(std::span<const double> costs, int64_t parts) {
  const int64_t layers = std::ssize(costs);
  if (parts < 1 || parts > layers) {
    raise<ValueError>("[cut_balanced] needs 1 or more layers a part, got {} layers for {} parts",
                      layers, parts);
  }
  for (int64_t i = 0; i < layers; ++i) {
    if (std::isfinite(costs[i]) && costs[i] >= 0) continue;
    raise<ValueError>("[cut_balanced] costs must be finite and 0 or more, got {} for layer {}",
                      costs[i], i);
  }
  const auto [most, _] =
      least(costs, parts, [](double before, double part) { return std::max(before, part); });
  const auto [squares, cut] = least(costs, parts, [most = most](double before, double part) {
    return part <= most ? before + part * part : kNever;
  });
  return cut;
}

std::vector<double> part_costs(const Cut& cut, std::span<const double> costs) {
  cut_by_list(std::ssize(costs), cut);  // throws unless they fit
  std::vector<double> sums;
  for (auto layer = costs.begin(); int64_t size : cut) {
    sums.push_back(std::accumulate(layer, layer + size, 0.0));
    layer += size;
  }
  return sums;
}

std::vector<double> count_flops(std::span<const std::function<void()>> layers) {
  std::vector<double> flops;
  for (const auto& layer : layers) {
    const CountCosts costs;
    layer();
    flops.push_back(static_cast<double>(costs.flops()));
  }
  return flops;
}

std::string describe_cut(const Cut& cut, std::span<const double> costs) {
  const std::vector<double> sums = part_costs(cut, costs);
  const double mean = std::reduce(sums.begin(), sums.end()) / static_cast<double>(sums.size());
  std::string table =
      fmt::format("{:>4}  {:<14}{:>12}{:>9}\n", "part", "layers", "cost", "of mean");
  int64_t begin = 0;
  for (size_t i = 0; i < cut.size(); ++i) {
    const std::string range = fmt::format("{} to {}", begin, begin + cut[i] - 1);
    table += fmt::format("{:>4}  {:<14}{:>12.6g}{:>9.2f}\n", i, range, sums[i],
                         mean > 0 ? sums[i] / mean : 1);
    begin += cut[i];
  }
  return table;
}

}  // namespace capstan::distributed::pipeline
