// Defines Conv2d, a convolution over images.
#pragma once

#include "core/backend.h"
#include "nn/module.h"

namespace capstan::nn {

struct ConvOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;
};

/// x [n, in, h, w] to [n, out, h', w'], h' = (h + 2 padding - kernel) / stride + 1.
/// weight [out, in, kernel, kernel], bias [out].
struct Conv2d : Module {
  Conv2d(int64_t in, int64_t out, int64_t kernel, ConvOptions options = {});

  Window2d window;
  Parameter weight;
  std::optional<Parameter> bias;
  CAPSTAN_MODULE(Conv2d, weight, bias)

  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
