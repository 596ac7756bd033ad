// Defines differentiable pooling over images [n, channels, height, width], and over lines
// [n, channels, length] as images of height 1.
//
// Throws ShapeError, DtypeError (floating point), and ValueError for a kernel, stride or output
// size below 1 or a padding of more than half of the kernel.
#pragma once

#include "core/backend.h"

namespace capstan {

/// The largest element of each window; padding never wins. The gradient goes to the first of
/// equals.
Tensor max_pool2d(const Tensor& x, const Window2d& window);
/// The mean of each window, in which padding counts as 0.
Tensor avg_pool2d(const Tensor& x, const Window2d& window);

// Windows of any sizes that cover the image, [height, width] of them: window i of n lies between
// the pixels floor(i size / n) and ceil((i + 1) size / n).

Tensor adaptive_max_pool2d(const Tensor& x, int64_t height, int64_t width);
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);

// The same along lines.

struct Window1d {
  int64_t kernel = 1, stride = 1, padding = 0;
};

Tensor max_pool1d(const Tensor& x, const Window1d& window);
Tensor avg_pool1d(const Tensor& x, const Window1d& window);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t length);
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t length);

}  // namespace capstan
