#include "nn/conv2d.h"

#include "autograd/convolution.h"
#include "core/raise.h"
#include "nn/init.h"

namespace capstan::nn {

namespace {

int64_t checked_groups(int64_t in, int64_t out, int64_t groups) {
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    raise<ValueError>("[conv2d] {} channels and {} outputs cannot be cut into {} equal groups", in,
                      out, groups);
  }
  return groups;
}

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, ConvOptions options)
    : window{.kernel = {kernel, kernel},
             .stride = {options.stride, options.stride},
             .padding = {options.padding, options.padding},
             .dilation = {options.dilation, options.dilation}},
      groups(checked_groups(in, out, options.groups)),
      weight(fan_in_uniform({out, in / groups, kernel, kernel}, in / groups * kernel * kernel)) {
  if (options.bias) bias.emplace(fan_in_uniform({out}, in / groups * kernel * kernel));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias ? &*bias : nullptr, window, groups);
}

}  // namespace capstan::nn
