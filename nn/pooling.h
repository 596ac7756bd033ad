// Defines the pooling layers over images [n, c, h, w] and lines [n, c, length]; what they compute
// is in autograd/pooling.h.
#pragma once

#include "autograd/pooling.h"
#include "nn/module.h"

namespace capstan::nn {

/// What pools over images share: windows of one size along both axes, which lie side by side unless
/// a stride is given. Throws ValueError for a kernel or stride below 1, and for a padding below 0
/// or above half of the kernel.
struct Pool2d : Module {
  Window2d window;

 protected:
  Pool2d(const char* name, int64_t kernel, int64_t stride, int64_t padding);
};

struct MaxPool2d : Pool2d {
  explicit MaxPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : Pool2d("max_pool2d", kernel, stride, padding) {}
  CAPSTAN_MODULE(MaxPool2d)
  Tensor forward(const Tensor& x) { return max_pool2d(x, window); }
};

/// Padding counts as 0.
struct AvgPool2d : Pool2d {
  explicit AvgPool2d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : Pool2d("avg_pool2d", kernel, stride, padding) {}
  CAPSTAN_MODULE(AvgPool2d)
  Tensor forward(const Tensor& x) { return avg_pool2d(x, window); }
};

/// The same over lines.
struct Pool1d : Module {
  Window1d window;

 protected:
  Pool1d(const char* name, int64_t kernel, int64_t stride, int64_t padding);
};

struct MaxPool1d : Pool1d {
  explicit MaxPool1d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : Pool1d("max_pool1d", kernel, stride, padding) {}
  CAPSTAN_MODULE(MaxPool1d)
  Tensor forward(const Tensor& x) { return max_pool1d(x, window); }
};

/// Padding counts as 0.
struct AvgPool1d : Pool1d {
  explicit AvgPool1d(int64_t kernel, int64_t stride = 0, int64_t padding = 0)
      : Pool1d("avg_pool1d", kernel, stride, padding) {}
  CAPSTAN_MODULE(AvgPool1d)
  Tensor forward(const Tensor& x) { return avg_pool1d(x, window); }
};

/// What pools to a given size, from any, share; 1 pools the whole. Throws ValueError for a size
/// below 1.
struct AdaptivePool2d : Module {
  int64_t height, width;

 protected:
  AdaptivePool2d(const char* name, int64_t height, int64_t width);
};

struct AdaptiveMaxPool2d : AdaptivePool2d {
  AdaptiveMaxPool2d(int64_t height, int64_t width)
      : AdaptivePool2d("adaptive_max_pool2d", height, width) {}
  CAPSTAN_MODULE(AdaptiveMaxPool2d)
  Tensor forward(const Tensor& x) { return adaptive_max_pool2d(x, height, width); }
};

struct AdaptiveAvgPool2d : AdaptivePool2d {
  AdaptiveAvgPool2d(int64_t height, int64_t width)
      : AdaptivePool2d("adaptive_avg_pool2d", height, width) {}
  CAPSTAN_MODULE(AdaptiveAvgPool2d)
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, height, width); }
};

/// The same over lines.
struct AdaptivePool1d : Module {
  int64_t length;

 protected:
  AdaptivePool1d(const char* name, int64_t length);
};

struct AdaptiveMaxPool1d : AdaptivePool1d {
  explicit AdaptiveMaxPool1d(int64_t length) : AdaptivePool1d("adaptive_max_pool1d", length) {}
  CAPSTAN_MODULE(AdaptiveMaxPool1d)
  Tensor forward(const Tensor& x) { return adaptive_max_pool1d(x, length); }
};

struct AdaptiveAvgPool1d : AdaptivePool1d {
  explicit AdaptiveAvgPool1d(int64_t length) : AdaptivePool1d("adaptive_avg_pool1d", length) {}
  CAPSTAN_MODULE(AdaptiveAvgPool1d)
  Tensor forward(const Tensor& x) { return adaptive_avg_pool1d(x, length); }
};

}  // namespace capstan::nn
