// Defines Mesh, the ranks of a job as the points of a grid whose axes have names.
//
// Strategies compose by axes: a model too large for one device is cut along "pipeline" and
// "tensor", and what that makes is repeated along "data". Ranks count through the grid with the
// last axis fastest, so neighbours in the last axis are neighbours in rank, on one host where hosts
// hold several: the axis that talks most goes last. With pipeline x data x tensor of 2 x 2 x 2:
//
//   rank  pipeline  data  tensor
//      0         0     0       0      the tensor group of rank 2 is 2, 3: they share all other
//      1         0     0       1      coordinates; its data group is 0, 2; its pipeline group 2, 6
//      2         0     1       0
//      3         0     1       1
//      4         1     0       0      ...
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

class Mesh {
 public:
  struct Axis {
    std::string name;
    int size;
  };

  /// Throws ValueError for no axis, a name that is empty or comes twice, and sizes below 1 or that
  /// multiply to more than a million.
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  /// The product of all sizes.
  int ranks() const { return ranks_; }
  /// Of one axis. Throws ValueError, which lists the axes, for another name.
  int size(const std::string& axis) const { return axes_[find(axis)].size; }

  /// One for each axis, in their order. Throws ValueError for a rank outside the mesh.
  std::vector<int> coordinates(int rank) const;
  int coordinate(int rank, const std::string& axis) const { return coordinates(rank)[find(axis)]; }
  /// The other way round. Throws ValueError for coordinates outside the mesh.
  int rank(const std::vector<int>& coordinates) const;

  /// The ranks that differ from this one in these axes at most, in ascending order: {"data"} for
  /// those it shares gradients with, say, or several axes for the plane they span.
  std::vector<int> group(int rank, const std::vector<std::string>& axes) const;
  /// The groups of all ranks, each once, by their first rank.
  std::vector<std::vector<int>> groups(const std::vector<std::string>& axes) const;

  /// The communicator of this rank's group. A collective of all ranks of `world`, which must be as
  /// many as the mesh has; else ValueError.
  std::unique_ptr<Communicator> split(Communicator& world,
                                      const std::vector<std::string>& axes) const;

 private:
  size_t find(const std::string& axis) const;
  int first_of_group(int rank, const std::vector<std::string>& axes) const;

  std::vector<Axis> axes_;
  int ranks_ = 1;
};

/// A table: a row a rank, with its coordinates.
std::string to_string(const Mesh& mesh);

}  // namespace capstan::distributed
