// Defines pieces_of(): what a rank holds of what it trains, for checkpoints by layout
// (checkpoint/piece.h).
#pragma once

#include "distributed/gradient_path.h"
#include "nn/module.h"

namespace capstan::distributed {

/// What this rank holds of the parameters of `model`, the one that the path trains or a part of it,
/// in their order: what ranks share out as the path cuts it, the rest whole. Those that this rank
/// has nothing of are left out. The values are the tensors that are trained: what loads into them
/// calls path.after_step() then, which shares them with the other ranks. Buffers are equal on all
/// ranks of a path: whole(name, tensor).
Pieces pieces_of(const GradientPath& path, nn::Module& model);

/// Those of the state of an optimizer that steps path.parameters(), under
/// "<parameter>.<quantity>". What is like a parameter is cut as that is; a scalar (a count of
/// steps) is whole on each rank. Throws ValueError for a name that belongs to no parameter,
/// ShapeError for a quantity of a cut parameter that is neither.
Pieces pieces_of(const GradientPath& path, const NamedTensors& state);

}  // namespace capstan::distributed
