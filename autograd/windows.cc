#include "autograd/windows.h"

#include "core/raise.h"

namespace capstan {

namespace {
constexpr int64_t kMost = int64_t{1} << 30;  // far below where sizes would overflow
}  // namespace

void check_window(const char* operation, const Window2d& window) {
  for (int axis : {0, 1}) {
    const int64_t kernel = window.kernel[axis], stride = window.stride[axis];
    const int64_t padding = window.padding[axis], dilation = window.dilation[axis];
    if (kernel < 1 || kernel > kMost || stride < 1 || stride > kMost || padding < 0 ||
        padding > kMost) {
      raise<ValueError>(
          "[{}] kernel and stride must be at least 1 and padding in [0, {}], got {}, {}, {}",
          operation, kMost, kernel, stride, padding);
    }
    if (dilation < 1 || dilation > kMost) {
      raise<ValueError>("[{}] dilation must be in [1, {}], got {}", operation, kMost, dilation);
    }
  }
}

std::pair<int64_t, int64_t> output_size(const char* operation, const Tensor& x,
                                        const Window2d& window) {
  check_floating(operation, x.dtype());
  if (x.rank() != 4) {
    raise<ShapeError>("[{}] takes images [n, channels, height, width], got {}", operation,
                      x.shape());
  }
  check_window(operation, window);
  for (int axis : {0, 1}) {
    const int64_t size = x.shape()[2 + axis], padding = window.padding[axis];
    if (size < 1 || size + 2 * padding < window.extent(axis)) {
      raise<ShapeError>("[{}] a window of {} does not fit into {} with padding {}", operation,
                        window.extent(axis), x.shape(), padding);
    }
  }
  return {window.output_size(0, x.shape()[2]), window.output_size(1, x.shape()[3])};
}

void check_pooling(const char* operation, const Window2d& window) {
  check_window(operation, window);
  for (int axis : {0, 1}) {
    if (2 * window.padding[axis] > window.kernel[axis]) {
      raise<ValueError>("[{}] padding must be at most half of the kernel, got {} and {}", operation,
                        window.padding[axis], window.kernel[axis]);
    }
    if (window.dilation[axis] != 1) {
      raise<ValueError>("[{}] a pool has no dilation, got {}", operation, window.dilation[axis]);
    }
  }
}

void check_pooled_sizes(const char* operation, int64_t height, int64_t width) {
  if (height < 1 || width < 1) {
    raise<ValueError>("[{}] output sizes must be at least 1, got {} and {}", operation, height,
                      width);
  }
}

void check_output_padding(const char* operation, int64_t padding, int64_t stride) {
  if (padding < 0 || padding >= stride) {
    raise<ValueError>("[{}] output padding must be in [0, {}), the stride, got {}", operation,
                      stride, padding);
  }
}

}  // namespace capstan
