#include "nn/pooling.h"

#include "autograd/windows.h"

namespace capstan::nn {

namespace {

Window2d square(const char* name, int64_t kernel, int64_t stride, int64_t padding) {
  if (stride == 0) stride = kernel;
  const Window2d window{
      .kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
  check_pooling(name, window);
  return window;
}

/// One side of a square.
Window1d line(const Window2d& window) {
  return {.kernel = window.kernel[0], .stride = window.stride[0], .padding = window.padding[0]};
}

}  // namespace

Pool2d::Pool2d(const char* name, int64_t kernel, int64_t stride, int64_t padding)
    : window(square(name, kernel, stride, padding)) {}

Pool1d::Pool1d(const char* name, int64_t kernel, int64_t stride, int64_t padding)
    : window(line(square(name, kernel, stride, padding))) {}

AdaptivePool2d::AdaptivePool2d(const char* name, int64_t height, int64_t width)
    : height(height), width(width) {
  check_pooled_sizes(name, height, width);
}

AdaptivePool1d::AdaptivePool1d(const char* name, int64_t length) : length(length) {
  check_pooled_sizes(name, 1, length);
}

}  // namespace capstan::nn
