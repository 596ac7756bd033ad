// Defines Linear, a fully connected layer.
#pragma once

#include "nn/module.h"

namespace capstan::nn {

struct LinearOptions {
  bool bias = true;
};

/// x [..., in] to x weight^T + bias: [..., out]. weight [out, in], bias [out].
struct Linear : Module {
  Linear(int64_t in, int64_t out, LinearOptions options = {});

  Parameter weight;
  std::optional<Parameter> bias;
  CAPSTAN_MODULE(Linear, weight, bias)

  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
