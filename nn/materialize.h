// Defines materialize(), which gives a module on meta its numbers, and become(), by which a tensor
// that many hold is put in another place.
//
// A model is recorded on meta (core/recipe.h), cut up there for the ranks, and only then does each
// rank make the numbers of its own part: no rank ever has memory for the whole. Everything that was
// attached to the parameters before, hooks on their gradients too, stays.
#pragma once

#include "core/recipe.h"
#include "nn/module.h"

namespace capstan::nn {

/// Makes the parameters and buffers of a module that are on meta, one after the other, on `device`.
/// Throws ValueError for one that was not made while the recipe recorded.
void materialize(Module& module, const Recipe& recipe, Device device = {});

/// Makes `tensor`, in all its handles, the view `place`, of the same shape and dtype. It is trained
/// if it was, and without a gradient if the device is another.
void become(const Tensor& tensor, const Tensor& place);

}  // namespace capstan::nn
