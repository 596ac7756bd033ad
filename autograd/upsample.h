// Defines differentiable upsampling of images [n, channels, height, width] by interpolation; it
// shrinks them as well.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// How the elements of a longer axis are made of those of a shorter one. With n of them and
/// `step` = n / size, or 1 / scale, element i of the result lies in the source at
enum class Interpolation {
  nearest,           // floor(i step), and is that element
  bilinear,          // (i + 1/2) step - 1/2, a mean of its two neighbours by their distances
  bilinear_aligned,  // i (n - 1) / (size - 1), likewise: first and last elements stay what they are
};

/// x [n, channels, h, w] to [n, channels, height, width]. Throws ValueError for a size below 1,
/// ShapeError for other than images with pixels, DtypeError (floating point).
Tensor upsample(const Tensor& x, int64_t height, int64_t width,
                Interpolation mode = Interpolation::nearest);
/// To [n, channels, floor(h scale), floor(w scale)]. Throws as the other one, and ValueError unless
/// `scale` is above 0 and finite, ShapeError if it leaves nothing of the image.
Tensor upsample(const Tensor& x, double scale, Interpolation mode = Interpolation::nearest);

}  // namespace capstan
