#include "nn/conv2d.h"

#include "autograd/convolution.h"
#include "nn/init.h"

namespace capstan::nn {

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, ConvOptions options)
    : window{.kernel = {kernel, kernel},
             .stride = {options.stride, options.stride},
             .padding = {options.padding, options.padding}},
      weight(fan_in_uniform({out, in, kernel, kernel}, in * kernel * kernel)) {
  if (options.bias) bias.emplace(fan_in_uniform({out}, in * kernel * kernel));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias ? &*bias : nullptr, window);
}

}  // namespace capstan::nn
