// The rows of convolutions but conv2d.
#pragma once

#include "autograd/convolution.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> convolution_operations() {
  const auto bias_of = [](const Tensors& x) { return x.size() > 2 ? &x[2] : nullptr; };
  // What conv1d, conv3d and conv_transpose1d refuse of x and weight of one shape.
  const auto failures = [](const auto& f, const Shape& shape, const std::string& takes) {
    Shape flat = shape;
    flat.erase(0);
    const auto with = [=](const ConvolutionOptions& options) {
      return [=] { return f(of(shape), of(shape), options); };
    };
    return std::vector<Failure>{
        fails<ShapeError>(takes, [=] { return f(of(flat), of(shape), {}); }),
        fails<ShapeError>(takes, [=] { return f(of(shape), of(flat), {}); }),
        fails<DtypeError>("got int64", [=] { return f(whole(shape), whole(shape), {}); }),
        fails<DtypeError>("equal, got float32 and float64",
                          [=] { return f(of(shape), of(shape, Dtype::float64), {}); }),
        fails<DeviceError>("cpu:0 and meta", [=] { return f(of(shape), elsewhere(shape), {}); }),
        fails<ValueError>("at least 1", with({.stride = 0})),
        fails<ValueError>("padding in [0", with({.padding = -1})),
        fails<ValueError>("dilation must be in [1", with({.dilation = 0})),
        fails<ValueError>("into 0 equal groups", with({.groups = 0}))};
  };
  const auto line = [=](const ConvolutionOptions& options) {
    return [=](const Tensors& x) { return conv1d(x[0], x[1], bias_of(x), options); };
  };
  const auto block = [=](const ConvolutionOptions& options) {
    return [=](const Tensors& x) { return conv3d(x[0], x[1], bias_of(x), options); };
  };
  const auto line_back = [=](const ConvolutionOptions& options, int64_t output_padding) {
    return [=](const Tensors& x) {
      return conv_transpose1d(x[0], x[1], bias_of(x), options, output_padding);
    };
  };
  const auto back = [=](const Window2d& window, int64_t groups = 1, int64_t output_padding = 0) {
    return [=](const Tensors& x) {
      return conv_transpose2d(x[0], x[1], bias_of(x), window, groups, output_padding);
    };
  };
  // conv_transpose2d on images [1, 2, 3, 3].
  const auto misfit = [](const Tensor& weight, const Window2d& window, int64_t groups = 1,
                         int64_t output_padding = 0) {
    return [=] {
      return conv_transpose2d(of({1, 2, 3, 3}), weight, nullptr, window, groups, output_padding);
    };
  };
  const Window2d pairs{.kernel = {2, 2}};
  const Shape good{2, 1, 2, 2};
  return {
      {"conv1d",
       {{"plain", line({})},
        {"strided", line({.stride = 2, .padding = 1, .dilation = 2})},
        {"grouped", line({.groups = 2})}},
       failures([](const Tensor& x, const Tensor& w,
                   const ConvolutionOptions& o) { return conv1d(x, w, nullptr, o); },
                {2, 2, 2}, "takes [n, channels, length]")},
      {"conv3d",
       {{"plain", block({})},
        {"strided", block({.stride = 2, .padding = 1, .dilation = 2})},
        {"grouped", block({.groups = 2})}},
       failures([](const Tensor& x, const Tensor& w,
                   const ConvolutionOptions& o) { return conv3d(x, w, nullptr, o); },
                {2, 2, 2, 2, 2}, "takes [n, channels, depth, height, width]")},
      {"conv_transpose1d",
       {{"plain", line_back({}, 0)}, {"strided", line_back({.stride = 2, .padding = 1}, 1)}},
       failures([](const Tensor& x, const Tensor& w,
                   const ConvolutionOptions& o) { return conv_transpose1d(x, w, nullptr, o); },
                {2, 2, 2}, "takes [n, channels, length]")},
      {"conv_transpose2d",
       {{"plain", back({.kernel = {3, 2}})},
        {"strided", back({.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}}, 1, 1)},
        {"dilated", back({.kernel = {2, 2}, .dilation = {2, 2}})},
        {"grouped", back({.kernel = {2, 2}}, 2)},
        {"no_bias", back({.kernel = {2, 2}})}},
       {fails<ShapeError>("weight must be [2, out, 2, 2] for input [1, 2, 3, 3], got [3, 1, 2, 2]",
                          misfit(of({3, 1, 2, 2}), pairs)),
        fails<ShapeError>("weight must be", misfit(of({2, 2}), pairs)),
        fails<ValueError>("2 channels and 3 outputs cannot be cut into 3 equal groups",
                          misfit(of(good), pairs, 3)),
        fails<ValueError>("output padding must be in [0, 1), the stride, got 1",
                          misfit(of(good), pairs, 1, 1)),
        fails<ValueError>("got -1", misfit(of(good), pairs, 1, -1)),
        fails<ValueError>("at least 1", misfit(of(good), {.kernel = {2, 2}, .stride = {0, 1}})),
        fails<ShapeError>("a padding of 2 leaves nothing of the result",
                          misfit(of(good), {.kernel = {2, 2}, .padding = {2, 2}})),
        fails<DtypeError>("float32 and float64", misfit(of(good, Dtype::float64), pairs)),
        fails<DeviceError>("cpu:0 and meta", misfit(elsewhere(good), pairs)),
        fails<DtypeError>(
            "got int64",
            [=] {
              return conv_transpose2d(whole({1, 2, 3, 3}), whole(good), nullptr, pairs);
            }),
        fails<ShapeError>("bias must be [1]",
                          [=] {
                            const Tensor bias = of({2});
                            return conv_transpose2d(of({1, 2, 3, 3}), of(good), &bias, pairs);
                          })}},
  };
}

}  // namespace capstan::testing
