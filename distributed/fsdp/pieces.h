// Defines pieces_of(): what a rank of a sharded model owns of its tensors, for checkpoints by
// layout (checkpoint/piece.h).
#pragma once

#include <map>

#include "distributed/checkpoint/piece.h"
#include "distributed/fsdp/fsdp.h"

namespace capstan::distributed {

/// Where the model's parameters lie in larger tensors, by name, if another strategy (tensor
/// parallelism) has cut those before; parameters that are not named are whole tensors.
using Boxes = std::map<std::string, Region>;

/// This rank's ranges of the trained parameters, in the model's order; those that it has nothing of
/// are left out. The values are the optimizer's own tensors: what loads into them calls
/// Fsdp::after_step() then, which shares them with the other ranks. Frozen parameters and buffers
/// are equal on all ranks: whole(name, tensor) under full_parameters().
Pieces pieces_of(const Fsdp& fsdp, const Boxes& boxes = {});

/// Those of the state of an optimizer that steps fsdp.parameters(), under
/// "<parameter>.<quantity>". What is like a parameter is cut as that is; a scalar (a count of
/// steps) is whole on each rank. Throws ValueError for a name that belongs to no parameter,
/// ShapeError for a quantity that is neither.
Pieces pieces_of(const Fsdp& fsdp, const NamedTensors& state, const Boxes& boxes = {});

}  // namespace capstan::distributed
