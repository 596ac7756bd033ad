// Defines differentiable 2-d convolution and max pooling over images [n, channels, height, width].
#pragma once

#include "core/backend.h"

namespace capstan {

/// Cross-correlates x [n, c, h, w] with weight [o, c, kh, kw] and adds bias [o] if given; the
/// result is [n, o, h', w'] with h' = (h + 2 padding - kh) / stride + 1. `window.kernel` must match
/// the weight. Throws ShapeError, DtypeError (float32 or float64, all equal), ValueError (stride,
/// padding).
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window);

/// The largest element of each window; padding never wins. The gradient goes to the first of
/// equals.
Tensor max_pool2d(const Tensor& x, const Window2d& window);

}  // namespace capstan
