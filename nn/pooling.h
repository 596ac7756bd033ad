// Defines the pooling layers over images [n, c, h, w] and lines [n, c, length]; what they compute
// is in autograd/pooling.h.
#pragma once

#include "autograd/pooling.h"
#include "nn/module.h"

namespace capstan::nn {

// Windows are of one size along every axis. They lie side by side unless a stride is given.

struct MaxPool2d : Module {
  explicit MaxPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window{.kernel = {kernel, kernel},
               .stride = {stride ? stride : kernel, stride ? stride : kernel},
               .padding = {padding, padding}} {}

  Window2d window;
  CAPSTAN_MODULE(MaxPool2d)
  Tensor forward(const Tensor& x) { return max_pool2d(x, window); }
};

/// Padding counts as 0.
struct AvgPool2d : Module {
  explicit AvgPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window(MaxPool2d(kernel, stride, padding).window) {}

  Window2d window;
  CAPSTAN_MODULE(AvgPool2d)
  Tensor forward(const Tensor& x) { return avg_pool2d(x, window); }
};

struct MaxPool1d : Module {
  explicit MaxPool1d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window{.kernel = kernel, .stride = stride ? stride : kernel, .padding = padding} {}

  Window1d window;
  CAPSTAN_MODULE(MaxPool1d)
  Tensor forward(const Tensor& x) { return max_pool1d(x, window); }
};

/// Padding counts as 0.
struct AvgPool1d : Module {
  explicit AvgPool1d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : window(MaxPool1d(kernel, stride, padding).window) {}

  Window1d window;
  CAPSTAN_MODULE(AvgPool1d)
  Tensor forward(const Tensor& x) { return avg_pool1d(x, window); }
};

// To a given size, from any; 1 pools the whole.

struct AdaptiveMaxPool2d : Module {
  AdaptiveMaxPool2d(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height, width;
  CAPSTAN_MODULE(AdaptiveMaxPool2d)
  Tensor forward(const Tensor& x) { return adaptive_max_pool2d(x, height, width); }
};

struct AdaptiveAvgPool2d : Module {
  AdaptiveAvgPool2d(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height, width;
  CAPSTAN_MODULE(AdaptiveAvgPool2d)
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, height, width); }
};

struct AdaptiveMaxPool1d : Module {
  explicit AdaptiveMaxPool1d(int64_t length) : length(length) {}

  int64_t length;
  CAPSTAN_MODULE(AdaptiveMaxPool1d)
  Tensor forward(const Tensor& x) { return adaptive_max_pool1d(x, length); }
};

struct AdaptiveAvgPool1d : Module {
  explicit AdaptiveAvgPool1d(int64_t length) : length(length) {}

  int64_t length;
  CAPSTAN_MODULE(AdaptiveAvgPool1d)
  Tensor forward(const Tensor& x) { return adaptive_avg_pool1d(x, length); }
};

}  // namespace capstan::nn
