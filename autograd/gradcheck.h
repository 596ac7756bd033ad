// Defines gradcheck(), which compares gradients from the tape with finite differences.
#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace capstan {

struct GradcheckOptions {
  double step = 1e-6;      // of the central difference
  double relative = 1e-5;  // allowed error, relative to the larger of the two ...
  double absolute = 1e-7;  // ... or absolute
};

/// Checks the gradient of `f` at `inputs` (float64 leaves that require gradients; others are
/// constants) against (f(x + h) - f(x - h)) / 2h, element by element, with random weights on the
/// elements of the result. Throws GradientError naming the first element that differs, with both
/// values.
void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

/// The same for gradients of gradients: checks the gradients of what grad() with create_graph gives
/// for the inputs that require one, by these inputs and by the seed.
void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace capstan
