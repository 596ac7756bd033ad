// Defines the layers without parameters; activations and pools have headers of their own.
#pragma once

#include "autograd/dropout.h"
#include "autograd/upsample.h"
#include "autograd/views.h"
#include "nn/activations.h"
#include "nn/module.h"

namespace capstan::nn {

/// Keeps the first axis and merges the others: [n, ...] to [n, elements].
struct Flatten : Module {
  CAPSTAN_MODULE(Flatten)
  Tensor forward(const Tensor& x) { return flatten(x, 1); }
};

/// Images [n, c, h, w] to other sizes (autograd/upsample.h), given as a factor or as such.
struct Upsample : Module {
  explicit Upsample(double scale, Interpolation mode = Interpolation::nearest)
      : scale(scale), mode(mode) {}
  Upsample(int64_t height, int64_t width, Interpolation mode = Interpolation::nearest)
      : height(height), width(width), mode(mode) {}

  std::optional<double> scale;
  int64_t height = 0, width = 0;  // without a scale
  Interpolation mode;
  CAPSTAN_MODULE(Upsample)
  Tensor forward(const Tensor& x) {
    return scale ? upsample(x, *scale, mode) : upsample(x, height, width, mode);
  }
};

/// Dropout in training, the identity in evaluation. Draws from the thread's default generator.
struct Dropout : Module {
  /// Throws ValueError unless 0 <= p < 1.
  explicit Dropout(double p = 0.5);

  double p;
  /// Where ranks share the tensor that is dropped: which part of it this one has (core/part.h).
  /// Shared with the strategies that set it, as it may change in the course of a pass.
  std::vector<std::shared_ptr<const AxisParts>> parts;
  CAPSTAN_MODULE(Dropout)
  Tensor forward(const Tensor& x);
};

/// The same for whole channels of [n, channels, ...] (Tompson et al., "Efficient object
/// localization using convolutional networks", CVPR 2015).
struct Dropout2d : Module {
  /// Throws ValueError unless 0 <= p < 1.
  explicit Dropout2d(double p = 0.5);

  double p;
  CAPSTAN_MODULE(Dropout2d)
  /// Throws ShapeError for less than two axes.
  Tensor forward(const Tensor& x);
};

}  // namespace capstan::nn
