// Defines the layers without parameters; the activations are in activations.h.
#pragma once

#include "autograd/dropout.h"
#include "autograd/pooling.h"
#include "autograd/views.h"
#include "nn/activations.h"
#include "nn/module.h"

namespace capstan::nn {

/// Keeps the first axis and merges the others: [n, ...] to [n, elements].
struct Flatten : Module {
  CAPSTAN_MODULE(Flatten)
  Tensor forward(const Tensor& x) { return flatten(x, 1); }
};

/// Largest of each window of [n, c, h, w]; windows lie side by side unless a stride is given.
struct MaxPool2d : Module {
  explicit MaxPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window{.kernel = {kernel, kernel},
               .stride = {stride ? stride : kernel, stride ? stride : kernel},
               .padding = {padding, padding}} {}

  Window2d window;
  CAPSTAN_MODULE(MaxPool2d)
  Tensor forward(const Tensor& x) { return max_pool2d(x, window); }
};

/// Mean of each window of [n, c, h, w], padding counting as 0; windows as in MaxPool2d.
struct AvgPool2d : Module {
  explicit AvgPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window(MaxPool2d(kernel, stride, padding).window) {}

  Window2d window;
  CAPSTAN_MODULE(AvgPool2d)
  Tensor forward(const Tensor& x) { return avg_pool2d(x, window); }
};

/// [n, c, h, w] to means [n, c, height, width]; 1 by 1 is the global mean.
struct AdaptiveAvgPool2d : Module {
  AdaptiveAvgPool2d(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height, width;
  CAPSTAN_MODULE(AdaptiveAvgPool2d)
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, height, width); }
};

/// Dropout in training, the identity in evaluation. Draws from the thread's default generator.
struct Dropout : Module {
  /// Throws ValueError unless 0 <= p < 1.
  explicit Dropout(double p = 0.5);

  double p;
  CAPSTAN_MODULE(Dropout)
  Tensor forward(const Tensor& x) { return training() ? dropout(x, p) : x; }
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
