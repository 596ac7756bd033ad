// Defines Linear, a fully connected layer, and Bilinear, which connects two inputs.
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

  /// As on_output, of x weight^T before the bias is added: the sum over ranks, say, where each has
  /// a part of the inputs.
  HookList<Tensor(const Tensor&)> on_product;

  Tensor forward(const Tensor& x);
};

/// a [..., left] and b [..., right] to [..., out]: the sum of a[i] weight[o, i, j] b[j] over i and
/// j, plus bias[o]. weight [out, left, right], bias [out].
struct Bilinear : Module {
  Bilinear(int64_t left, int64_t right, int64_t out, LinearOptions options = {});

  Parameter weight;
  std::optional<Parameter> bias;
  CAPSTAN_MODULE(Bilinear, weight, bias)

  Tensor forward(const Tensor& a, const Tensor& b);
};

}  // namespace capstan::nn
