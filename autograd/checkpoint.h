// Defines checkpoint(), which computes a part of a model twice instead of keeping what its backward
// needs (Chen et al., "Training deep nets with sublinear memory cost", 2016).
//
// The part is recorded on the tape as always, but its tensors are packed (PackSaved in saved.h) by
// their number alone and go. The first one that backward asks for runs the part again, and the
// tensors kept then, by the same numbers, are the ones it gets. The tape is the same as without a
// checkpoint: the gradients of parameters come once, hooks and DDP see nothing special, checkpoints
// nest, and gradients have gradients.
#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace capstan {

/// f(inputs), keeping only the inputs for backward. `f` must do the same when it runs again, which
/// it does inside backward: with default_generator() set back to where it was, and without any
/// other state restored. Backward throws GradientError if it keeps other tensors then, or if an
/// input or anything else it reads was changed in place since.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                  const std::vector<Tensor>& inputs);
/// The same for one input.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& input);

}  // namespace capstan
