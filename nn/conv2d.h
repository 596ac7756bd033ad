// Defines Conv2d, a convolution over images.
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

/// x [n, in, h, w] to [n, out, h', w'], h' = (h + 2 padding - dilation (kernel - 1) - 1) / stride +
/// 1. weight [out, in / groups, kernel, kernel], bias [out]. Throws ValueError for groups that do
/// not divide both.
struct Conv2d : Module {
  Conv2d(int64_t in, int64_t out, int64_t kernel, ConvOptions options = {});

  Window2d window;
  int64_t groups;
  Parameter weight;
  std::optional<Parameter> bias;
  CAPSTAN_MODULE(Conv2d, weight, bias)

  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
