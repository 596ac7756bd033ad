// Defines how the layers of a model are cut into the chunks of a pipeline: by list, evenly, or
// balanced by cost.
//
// A pipeline is as fast as its slowest stage: whatever another one is faster, it waits. So the cut
// to look for is the one whose most expensive part is the cheapest.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace capstan::distributed::pipeline {

/// The number of layers of each part, in the order of the model.
using Cut = std::vector<int64_t>;

/// `sizes` as a cut of `layers` layers. Throws ValueError unless they are all 1 or more and add up.
Cut cut_by_list(int64_t layers, std::span<const int64_t> sizes);

/// Parts of the same number of layers. Throws ValueError if `parts` does not divide `layers`.
Cut cut_evenly(int64_t layers, int64_t parts);

/// The cut whose most expensive part is the cheapest, exactly, by dynamic programming over layers
/// and parts in O(parts layers^2). Of several such cuts, the one of the least sum of squares, which
/// is the most even; of several of those, one whose last parts have more layers, as late stages
/// keep fewer activations. Every part has a layer. Throws ValueError for fewer layers than parts,
/// and for costs that are negative or not finite.
Cut cut_balanced(std::span<const double> costs, int64_t parts);

/// The cost of each part.
std::vector<double> part_costs(const Cut& cut, std::span<const double> costs);

/// The floating-point operations that each function makes on Device::meta(): of layers that are
/// called one after another, say. Measured times will do as costs just as well.
std::vector<double> count_flops(std::span<const std::function<void()>> layers);

/// A table: part, its layers, its cost, and its cost over the mean of all.
std::string describe_cut(const Cut& cut, std::span<const double> costs);

}  // namespace capstan::distributed::pipeline
