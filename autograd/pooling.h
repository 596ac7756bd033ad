// Defines differentiable pooling over images [n, channels, height, width].
//
// Throws ShapeError, DtypeError (floating point), and ValueError for a kernel or stride below 1
// or a padding of more than half of the kernel.
#pragma once

#include "core/backend.h"

namespace capstan {

/// The largest element of each window; padding never wins. The gradient goes to the first of
/// equals.
Tensor max_pool2d(const Tensor& x, const Window2d& window);

/// The mean of each window, in which padding counts as 0.
Tensor avg_pool2d(const Tensor& x, const Window2d& window);

/// Means of [height, width] windows that cover the image: window i of n lies between the pixels
/// floor(i size / n) and ceil((i + 1) size / n).
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);

}  // namespace capstan
