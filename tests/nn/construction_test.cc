// Tests that layers refuse, as they are made, what no input could go through.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "core/error.h"
#include "nn/convolution.h"
#include "nn/normalization.h"
#include "nn/pooling.h"

namespace capstan::nn {
namespace {

struct Refused {
  std::function<void()> make;
  std::string message;
};

std::string window(const std::string& layer, const std::string& got) {
  return "[" + layer +
         "] kernel and stride must be at least 1 and padding in [0, 1073741824], got " + got;
}

TEST_CASE("layers refuse windows, groups and sizes without sense") {
  const ConvOptions standing{.stride = 0}, thinned{.dilation = 0}, peeled{.padding = -1};
  const Refused table[] = {
      {[] { MaxPool2d(0); }, window("max_pool2d", "0, 0, 0")},
      {[] { MaxPool2d(2, -1); }, window("max_pool2d", "2, -1, 0")},
      {[] { MaxPool2d(2, 2, -1); }, window("max_pool2d", "2, 2, -1")},
      {[] { MaxPool2d(2, 2, 2); },
       "[max_pool2d] padding must be at most half of the kernel, got 2 and 2"},
      {[] { AvgPool2d(-3); }, window("avg_pool2d", "-3, -3, 0")},
      {[] { AvgPool2d(3, 1, 2); },
       "[avg_pool2d] padding must be at most half of the kernel, got 2 and 3"},
      {[] { MaxPool1d(0, 1); }, window("max_pool1d", "0, 1, 0")},
      {[] { AvgPool1d(1, 1, 1); },
       "[avg_pool1d] padding must be at most half of the kernel, got 1 and 1"},
      {[] { AdaptiveMaxPool2d(0, 3); },
       "[adaptive_max_pool2d] output sizes must be at least 1, got 0 and 3"},
      {[] { AdaptiveAvgPool2d(3, -1); },
       "[adaptive_avg_pool2d] output sizes must be at least 1, got 3 and -1"},
      {[] { AdaptiveMaxPool1d(0); },
       "[adaptive_max_pool1d] output sizes must be at least 1, got 1 and 0"},
      {[] { AdaptiveAvgPool1d(-2); },
       "[adaptive_avg_pool1d] output sizes must be at least 1, got 1 and -2"},

      {[] { Conv1d(4, 6, 0); }, window("conv1d", "0, 1, 0")},
      {[&] { Conv1d(4, 6, 3, thinned); }, "[conv1d] dilation must be in [1, 1073741824], got 0"},
      {[&] { Conv2d(4, 6, 3, standing); }, window("conv2d", "3, 0, 0")},
      {[] { Conv2d(4, 6, 3, {.groups = 4}); },
       "[conv2d] a weight [6, 4, 3, 3] cannot be cut into 4 equal groups"},
      {[&] { Conv3d(4, 6, 3, peeled); }, window("conv3d", "3, 1, -1")},
      {[] { ConvTranspose1d(4, 6, 3, {.groups = 0}); },
       "[conv_transpose1d] a weight [4, 6, 3] cannot be cut into 0 equal groups"},
      {[] { ConvTranspose1d(4, 6, 3, {}, -1); },
       "[conv_transpose1d] output padding must be in [0, 1), the stride, got -1"},
      {[] { ConvTranspose2d(4, 6, 3, {.stride = 2}, 2); },
       "[conv_transpose2d] output padding must be in [0, 2), the stride, got 2"},

      {[] { GroupNorm(0, 6); }, "[group_norm] 6 channels cannot be cut into 0 equal groups"},
      {[] { GroupNorm(4, 6); }, "[group_norm] 6 channels cannot be cut into 4 equal groups"},
  };
  for (const Refused& row : table) {
    CAPTURE(row.message);
    CHECK_THROWS_WITH_AS(row.make(), row.message.c_str(), ValueError);
  }
}

}  // namespace
}  // namespace capstan::nn
