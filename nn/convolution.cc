#include "nn/convolution.h"

#include "autograd/convolution.h"
#include "autograd/windows.h"
#include "core/raise.h"
#include "nn/init.h"

namespace capstan::nn {

namespace {

Window2d window(int64_t kernel, const ConvOptions& options) {
  return {.kernel = {kernel, kernel},
          .stride = {options.stride, options.stride},
          .padding = {options.padding, options.padding},
          .dilation = {options.dilation, options.dilation}};
}

/// With `shape` in groups.
Shape weight_shape(const char* name, Shape shape, const ConvOptions& options) {
  check_window(name, window(shape.back(), options));
  const int64_t groups = options.groups;
  if (groups < 1 || shape[0] % groups != 0 || shape[1] % groups != 0) {
    raise<ValueError>("[{}] a weight {} cannot be cut into {} equal groups", name, shape, groups);
  }
  shape[1] /= groups;
  return shape;
}

int64_t fan_in(Shape weight) {
  weight.erase(0);
  return numel(weight);
}
Tensor start(const Shape& weight) { return fan_in_uniform(weight, fan_in(weight)); }

ConvolutionOptions sliding(const ConvOptions& options) {
  return {.stride = options.stride,
          .padding = options.padding,
          .dilation = options.dilation,
          .groups = options.groups};
}

}  // namespace

Convolution::Convolution(const char* name, Shape shape, int64_t out, const ConvOptions& options)
    : options(options), weight(start(weight_shape(name, shape, options))) {
  if (options.bias) bias.emplace(fan_in_uniform({out}, fan_in(weight.shape())));
}

TransposedConvolution::TransposedConvolution(const char* name, const Shape& shape, int64_t out,
                                             const ConvOptions& options, int64_t output_padding)
    : Convolution(name, shape, out, options), output_padding(output_padding) {
  check_output_padding(name, output_padding, options.stride);
}

Tensor Conv1d::forward(const Tensor& x) {
  return conv1d(x, weight, bias_or_null(), sliding(options));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias_or_null(), window(weight.size(-1), options), options.groups);
}

Tensor Conv3d::forward(const Tensor& x) {
  return conv3d(x, weight, bias_or_null(), sliding(options));
}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  return conv_transpose1d(x, weight, bias_or_null(), sliding(options), output_padding);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias_or_null(), window(weight.size(-1), options),
                          options.groups, output_padding);
}

}  // namespace capstan::nn
