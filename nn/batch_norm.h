// Defines BatchNorm1d and BatchNorm2d (Ioffe, Szegedy, "Batch normalization", ICML 2015).
//
// In training the statistics are those of the batch, and running averages of them are kept in
// buffers; evaluation uses the running ones. Each rank keeps its own: policy `averaged`.
#pragma once

#include <functional>

#include "autograd/normalization.h"
#include "nn/module.h"

namespace capstan::nn {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // running = (1 - momentum) running + momentum batch
  bool affine = true;     // with a weight, which starts as 1, and a bias, which starts as 0
};

/// What BatchNorm1d and BatchNorm2d share. weight, bias and buffers [channels]; the running
/// variance is divided by n - 1. Throws ShapeError for another number of channels, ValueError for a
/// momentum outside [0, 1].
struct BatchNorm : Module {
  BatchNorm(int64_t channels, BatchNormOptions options);

  BatchNormOptions options;
  std::optional<Parameter> weight, bias;
  Buffer running_mean, running_var;

  /// Normalises a batch in training: batch_norm() of autograd, or what a strategy puts in its place
  /// that sees more samples than this rank's (distributed/sync_batch_norm.h).
  using Normalize = std::function<Tensor(const Tensor& x, const Tensor* weight, const Tensor* bias,
                                         double epsilon, BatchStatistics* seen)>;
  Normalize normalize_batch = batch_norm;

 protected:
  Tensor normalize(const char* shapes, bool fits, const Tensor& x);
};

/// [n, channels] or [n, channels, length].
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(int64_t channels, BatchNormOptions options = {})
      : BatchNorm(channels, options) {}
  CAPSTAN_MODULE(BatchNorm1d, weight, bias, running_mean, running_var)
  Tensor forward(const Tensor& x) {
    return normalize("[n, channels] or [n, channels, length]", x.rank() == 2 || x.rank() == 3, x);
  }
};

/// [n, channels, height, width].
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(int64_t channels, BatchNormOptions options = {})
      : BatchNorm(channels, options) {}
  CAPSTAN_MODULE(BatchNorm2d, weight, bias, running_mean, running_var)
  Tensor forward(const Tensor& x) {
    return normalize("[n, channels, height, width]", x.rank() == 4, x);
  }
};

}  // namespace capstan::nn
