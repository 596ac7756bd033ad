// Defines resize(): images in another size.
#pragma once

#include "core/tensor.h"

namespace capstan::data {

/// Planes float32 [..., h, w] as [..., height, width], outside the tape. Every pixel is a mean of
/// those around its place, weighted by a triangle two pixels wide, of the larger of the two sizes:
/// bilinear for larger images, without aliasing for smaller ones (as Pillow, and torchvision with
/// antialias). Throws DtypeError, ShapeError, or ValueError for sizes below 1.
Tensor resize(const Tensor& images, int64_t height, int64_t width);

}  // namespace capstan::data
