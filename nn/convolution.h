// Defines the convolution layers: Convolution, what they have in common, then one for each
// operation of autograd/convolution.h, which says what size the result has.
#pragma once

#include "core/backend.h"
#include "nn/module.h"

namespace capstan::nn {

/// The same along every axis of the kernel.
struct ConvOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;  // distance between the kernel's taps
  int64_t groups = 1;    // equal parts of channels and outputs, each a convolution of its own
  bool bias = true;
};

/// A kernel of one size along every axis. weight [out, in / groups, kernel...], or [in, out /
/// groups, kernel...] of a transposed one, and bias [out] start uniform by the weight's fan-in, its
/// second axis times the kernel's elements. Throws ValueError for groups that do not divide both,
/// for a kernel, stride or dilation below 1, and for a padding below 0.
struct Convolution : Module {
  ConvOptions options;
  Parameter weight;
  std::optional<Parameter> bias;

 protected:
  /// `shape` is what the weight has with one group.
  Convolution(const char* name, Shape shape, int64_t out, const ConvOptions& options);
  const Parameter* bias_or_null() const { return bias ? &*bias : nullptr; }
};

/// x [n, in, length] to [n, out, length'].
struct Conv1d : Convolution {
  Conv1d(int64_t in, int64_t out, int64_t kernel, const ConvOptions& options = {})
      : Convolution("conv1d", {out, in, kernel}, out, options) {}
  CAPSTAN_MODULE(Conv1d, weight, bias)

  Tensor forward(const Tensor& x);
};

/// x [n, in, h, w] to [n, out, h', w'].
struct Conv2d : Convolution {
  Conv2d(int64_t in, int64_t out, int64_t kernel, const ConvOptions& options = {})
      : Convolution("conv2d", {out, in, kernel, kernel}, out, options) {}
  CAPSTAN_MODULE(Conv2d, weight, bias)

  Tensor forward(const Tensor& x);
};

/// x [n, in, depth, h, w] to [n, out, depth', h', w'].
struct Conv3d : Convolution {
  Conv3d(int64_t in, int64_t out, int64_t kernel, const ConvOptions& options = {})
      : Convolution("conv3d", {out, in, kernel, kernel, kernel}, out, options) {}
  CAPSTAN_MODULE(Conv3d, weight, bias)

  Tensor forward(const Tensor& x);
};

/// The reverse of their shapes. Strides over several sizes lead to one; output_padding says which
/// of them to come back to. Throws ValueError unless it is in [0, stride).
struct TransposedConvolution : Convolution {
  int64_t output_padding;

 protected:
  TransposedConvolution(const char* name, const Shape& shape, int64_t out,
                        const ConvOptions& options, int64_t output_padding);
};

/// x [n, in, length'] to [n, out, length].
struct ConvTranspose1d : TransposedConvolution {
  ConvTranspose1d(int64_t in, int64_t out, int64_t kernel, const ConvOptions& options = {},
                  int64_t output_padding = 0)
      : TransposedConvolution("conv_transpose1d", {in, out, kernel}, out, options, output_padding) {
  }
  CAPSTAN_MODULE(ConvTranspose1d, weight, bias)

  Tensor forward(const Tensor& x);
};

/// x [n, in, h', w'] to [n, out, h, w].
struct ConvTranspose2d : TransposedConvolution {
  ConvTranspose2d(int64_t in, int64_t out, int64_t kernel, const ConvOptions& options = {},
                  int64_t output_padding = 0)
      : TransposedConvolution("conv_transpose2d", {in, out, kernel, kernel}, out, options,
                              output_padding) {}
  CAPSTAN_MODULE(ConvTranspose2d, weight, bias)

  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
