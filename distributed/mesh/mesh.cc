#include "distributed/mesh/mesh.h"

#include <algorithm>
#include <map>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

/// "pipeline 2, data 4"
std::string describe(const std::vector<Mesh::Axis>& axes) {
  std::string text;
  for (const Mesh::Axis& axis : axes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, axis.size);
  }
  return text;
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  if (axes_.empty()) raise<ValueError>("[mesh] needs at least one axis");
  constexpr int kMost = 1'000'000;
  for (const Axis& axis : axes_) {
    const auto same = [&](const Axis& other) { return other.name == axis.name; };
    if (axis.name.empty() || std::ranges::count_if(axes_, same) != 1) {
      raise<ValueError>("[mesh] each axis needs a name of its own, got {}", describe(axes_));
    }
    if (axis.size < 1 || axis.size > kMost / ranks_) {
      raise<ValueError>("[mesh] sizes must be 1 or more and multiply to at most {}, got {}", kMost,
                        describe(axes_));
    }
    ranks_ *= axis.size;
  }
}

size_t Mesh::find(const std::string& axis) const {
  const auto found = std::ranges::find(axes_, axis, &Axis::name);
  if (found == axes_.end()) {
    raise<ValueError>("[mesh] has the axes {}, got '{}'", describe(axes_), axis);
  }
  return found - axes_.begin();
}

std::vector<int> Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= ranks_) {
    raise<ValueError>("[mesh] has ranks 0 to {}, got {}", ranks_ - 1, rank);
  }
  std::vector<int> at(axes_.size());
  for (size_t i = axes_.size(); i-- > 0; rank /= axes_[i].size) at[i] = rank % axes_[i].size;
  return at;
}

int Mesh::rank(const std::vector<int>& coordinates) const {
  bool inside = coordinates.size() == axes_.size();
  int rank = 0;
  for (size_t i = 0; inside && i < axes_.size(); ++i) {
    inside = coordinates[i] >= 0 && coordinates[i] < axes_[i].size;
    rank = rank * axes_[i].size + coordinates[i];
  }
  if (!inside) {
    raise<ValueError>("[mesh] coordinates lie inside {}, got {}", describe(axes_),
                      fmt::join(coordinates, ", "));
  }
  return rank;
}

int Mesh::first_of_group(int rank, const std::vector<std::string>& axes) const {
  std::vector<int> at = coordinates(rank);
  for (const std::string& axis : axes) at[find(axis)] = 0;
  return this->rank(at);
}

std::vector<int> Mesh::group(int rank, const std::vector<std::string>& axes) const {
  const int first = first_of_group(rank, axes);
  std::vector<int> group;
  for (int other = first; other < ranks_; ++other) {
    if (first_of_group(other, axes) == first) group.push_back(other);
  }
  return group;
}

std::vector<std::vector<int>> Mesh::groups(const std::vector<std::string>& axes) const {
  std::map<int, std::vector<int>> by_first;
  for (int rank = 0; rank < ranks_; ++rank) by_first[first_of_group(rank, axes)].push_back(rank);
  std::vector<std::vector<int>> groups;
  for (auto& [_, group] : by_first) groups.push_back(std::move(group));
  return groups;
}

std::unique_ptr<Communicator> Mesh::split(Communicator& world,
                                          const std::vector<std::string>& axes) const {
  if (world.size() != ranks_) {
    raise<ValueError>("[mesh] {} makes {} ranks, got a communicator of {}", describe(axes_), ranks_,
                      world.size());
  }
  return world.split(first_of_group(world.rank(), axes));
}

std::string to_string(const Mesh& mesh) {
  std::string table = "rank";
  for (const Mesh::Axis& axis : mesh.axes()) table += "  " + axis.name;
  table += "\n";
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    table += fmt::format("{:>4}", rank);
    const std::vector<int> at = mesh.coordinates(rank);
    for (size_t i = 0; i < at.size(); ++i) {
      table += fmt::format("{:>{}}", at[i], mesh.axes()[i].name.size() + 2);
    }
    table += "\n";
  }
  return table;
}

}  // namespace capstan::distributed
