// Defines the layers without parameters, for use in Sequential; elsewhere the functions do as well.
#pragma once

#include "autograd/dropout.h"
#include "autograd/elementwise.h"
#include "autograd/pooling.h"
#include "autograd/views.h"
#include "nn/module.h"

namespace capstan::nn {

struct ReLU : Module {
  CAPSTAN_MODULE(ReLU)
  Tensor forward(const Tensor& x) { return relu(x); }
};

struct Tanh : Module {
  CAPSTAN_MODULE(Tanh)
  Tensor forward(const Tensor& x) { return capstan::tanh(x); }
};

struct Sigmoid : Module {
  CAPSTAN_MODULE(Sigmoid)
  Tensor forward(const Tensor& x) { return sigmoid(x); }
};

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

/// Dropout in training, the identity in evaluation. Draws from the thread's default generator.
struct Dropout : Module {
  /// Throws ValueError unless 0 <= p < 1.
  explicit Dropout(double p = 0.5);

  double p;
  CAPSTAN_MODULE(Dropout)
  Tensor forward(const Tensor& x) { return training() ? dropout(x, p) : x; }
};

}  // namespace capstan::nn
