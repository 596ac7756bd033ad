// Defines LayerNorm, RMSNorm, GroupNorm and InstanceNorm; the formulas and their sources are in
// autograd/normalization.h. BatchNorm, which remembers, is in batch_norm.h.
#pragma once

#include "nn/module.h"

namespace capstan::nn {

struct NormOptions {
  double epsilon = 1e-5;
  bool affine = true;  // with a weight, which starts as 1, and a bias, which starts as 0
};

/// Normalises the last axes, of sizes `shape`. weight and bias [shape].
struct LayerNorm : Module {
  explicit LayerNorm(const Shape& shape, NormOptions options = {});
  explicit LayerNorm(int64_t size, NormOptions options = {}) : LayerNorm(Shape{size}, options) {}

  Shape shape;
  double epsilon;
  std::optional<Parameter> weight, bias;
  CAPSTAN_MODULE(LayerNorm, weight, bias)

  Tensor forward(const Tensor& x);
};

/// Divides the last axes, of sizes `shape`, by their root mean square. weight [shape].
struct RMSNorm : Module {
  explicit RMSNorm(const Shape& shape, NormOptions options = {.epsilon = 1e-6});
  explicit RMSNorm(int64_t size, NormOptions options = {.epsilon = 1e-6})
      : RMSNorm(Shape{size}, options) {}

  Shape shape;
  double epsilon;
  std::optional<Parameter> weight;
  CAPSTAN_MODULE(RMSNorm, weight)

  Tensor forward(const Tensor& x);
};

/// Normalises `groups` equal parts of the channels of each sample of [n, channels, ...]. weight and
/// bias [channels]. Throws ValueError where the channels cannot be cut so.
struct GroupNorm : Module {
  GroupNorm(int64_t groups, int64_t channels, NormOptions options = {});

  int64_t groups;
  double epsilon;
  std::optional<Parameter> weight, bias;
  CAPSTAN_MODULE(GroupNorm, weight, bias)

  Tensor forward(const Tensor& x);
};

/// Normalises each channel of each sample of [n, channels, size, ...]. weight and bias [channels];
/// neither unless asked for.
struct InstanceNorm : Module {
  explicit InstanceNorm(int64_t channels, NormOptions options = {.affine = false});

  double epsilon;
  std::optional<Parameter> weight, bias;
  CAPSTAN_MODULE(InstanceNorm, weight, bias)

  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
