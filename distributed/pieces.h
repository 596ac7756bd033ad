// Defines pieces_of(): what a rank holds of what it trains, for checkpoints by layout
// (checkpoint/piece.h).
#pragma once

#include <map>

#include "distributed/checkpoint/piece.h"
#include "distributed/gradient_path.h"

namespace capstan::distributed {

/// Where the model's parameters lie in larger tensors, by name, if another strategy (tensor
/// parallelism) has cut those before; parameters that are not named are whole tensors.
using Boxes = std::map<std::string, Region>;

/// What path.parameters() are of the model's parameters, in their order; those that this rank has
/// nothing of are left out. The values are the optimizer's own tensors: what loads into them calls
/// path.after_step() then, which shares them with the other ranks. Frozen parameters and buffers
/// are equal on all ranks of a path: whole(name, tensor).
Pieces pieces_of(const GradientPath& path, const Boxes& boxes = {});

/// Those of the state of an optimizer that steps path.parameters(), under
/// "<parameter>.<quantity>". What is like a parameter is cut as that is; a scalar (a count of
/// steps) is whole on each rank. Throws ValueError for a name that belongs to no parameter,
/// ShapeError for a quantity of a cut parameter that is neither.
Pieces pieces_of(const GradientPath& path, const NamedTensors& state, const Boxes& boxes = {});

}  // namespace capstan::distributed
