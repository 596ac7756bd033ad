// Defines differentiable convolution; pooling is in pooling.h.
//
// Channels and outputs may come in `groups` equal parts, each a convolution of its own; weights are
// [out, in / groups, ...], for transposed ones [in, out / groups, ...]. Bias [out] may be null.
// Throws ShapeError, DtypeError (floating point, all equal), DeviceError, and ValueError for a
// kernel, stride, dilation or number of groups below 1 or a padding below 0.
#pragma once

#include "core/backend.h"

namespace capstan {

/// Cross-correlates x [n, c, h, w] with weight [o, c, kh, kw] and adds the bias; the result is
/// [n, o, h', w'] with h' = (h + 2 padding - dilation (kh - 1) - 1) / stride + 1. `window.kernel`
/// must match the weight.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d& window,
              int64_t groups = 1);

/// The reverse of conv2d's shapes, and its gradient for the input: x [n, c, h, w] and weight [c, o,
/// kh, kw] give [n, o, h', w'] with h' = (h - 1) stride - 2 padding + dilation (kh - 1) + 1 +
/// output_padding. Throws ValueError unless 0 <= output_padding < stride.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                        const Window2d& window, int64_t groups = 1, int64_t output_padding = 0);

/// The same along every axis.
struct ConvolutionOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// In one and three dimensions; the kernel's size is the weight's.

/// x [n, c, length] with weight [o, c, k].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr,
              const ConvolutionOptions& options = {});
/// x [n, c, length] with weight [c, o, k].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr,
                        const ConvolutionOptions& options = {}, int64_t output_padding = 0);
/// x [n, c, depth, h, w] with weight [o, c, kd, kh, kw]: the sum of kd convolutions in 2-d.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr,
              const ConvolutionOptions& options = {});

}  // namespace capstan
