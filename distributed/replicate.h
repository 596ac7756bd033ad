// Defines replicate(), with which all ranks come to have rank 0's numbers: a model that begins, an
// optimizer that goes on. And agree_on(), for models whose numbers every rank makes for itself.
#pragma once

#include <string_view>

#include "core/recipe.h"
#include "distributed/comm/communicator.h"
#include "nn/module.h"

namespace capstan::distributed {

/// Copies the elements of rank 0's tensors into those of the other ranks, once it is seen that all
/// ranks have the same by name, shape, dtype and whether it is trained. A collective; throws
/// CommError on every rank, with `what` in the text, if they differ.
void replicate(const NamedTensors& tensors, Communicator& communicator, std::string_view what);

/// Sees to it that all ranks will make the same model of their recipes; null: of none. Throws
/// SharedError on every rank where they would not, or where `model` has parameters that are not on
/// meta, and so not the recipe's. A collective.
void agree_on(const Recipe* recipe, nn::Module& model, Communicator& communicator);

}  // namespace capstan::distributed
