// The rows of pooling but max_pool2d, and of upsampling.
#pragma once

#include <cmath>

#include "autograd/pooling.h"
#include "autograd/upsample.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

/// The rows of max_pool1d and avg_pool1d.
inline Operation line_pool_row(const std::string& name,
                               Tensor (*pool)(const Tensor&, const Window1d&)) {
  const auto with = [=](const Window1d& window) {
    return [=](const Tensors& x) { return pool(x[0], window); };
  };
  const auto refused = [=](const Window1d& window) {
    return [=] { return pool(of({1, 1, 4}), window); };
  };
  return {name,
          {{"pairs", with({.kernel = 2, .stride = 2})},
           {"overlap", with({.kernel = 3, .stride = 2, .padding = 1})}},
          {fails<ShapeError>("takes lines [n, channels, length], got [4, 4]",
                             [=] {
                               return pool(of({4, 4}), {});
                             }),
           fails<DtypeError>("got int64",
                             [=] {
                               return pool(whole({1, 1, 4}), {});
                             }),
           fails<ShapeError>("a window of 5 does not fit", refused({.kernel = 5})),
           fails<ValueError>("at least 1", refused({.kernel = 2, .stride = 0})),
           fails<ValueError>("padding in [0", refused({.padding = -1})),
           fails<ValueError>("at most half of the kernel, got 2 and 3",
                             refused({.kernel = 3, .padding = 2}))}};
}

/// The rows of adaptive pools over lines and over images.
inline Operation adaptive_row(const std::string& name, Tensor (*pool)(const Tensor&, int64_t)) {
  return {name,
          {{"uneven", [=](const Tensors& x) { return pool(x[0], 3); }}},
          {fails<ValueError>("at least 1, got 1 and 0",
                             [=] {
                               return pool(of({1, 1, 2}), 0);
                             }),
           fails<ShapeError>("takes lines [n, channels, length], got [2, 2]",
                             [=] {
                               return pool(of({2, 2}), 1);
                             }),
           fails<ShapeError>("does not fit",
                             [=] {
                               return pool(of({1, 1, 0}), 1);
                             }),
           fails<DtypeError>("got int64", [=] {
             return pool(whole({1, 1, 2}), 1);
           })}};
}
inline Operation adaptive_row(const std::string& name,
                              Tensor (*pool)(const Tensor&, int64_t, int64_t)) {
  return {name,
          {{"global", [=](const Tensors& x) { return pool(x[0], 1, 1); }},
           {"uneven", [=](const Tensors& x) { return pool(x[0], 3, 4); }}},
          {fails<ValueError>("at least 1, got 0 and 2",
                             [=] {
                               return pool(of({1, 1, 2, 2}), 0, 2);
                             }),
           fails<ShapeError>("got [2, 2]",
                             [=] {
                               return pool(of({2, 2}), 1, 1);
                             }),
           fails<ShapeError>("does not fit",
                             [=] {
                               return pool(of({1, 1, 0, 2}), 1, 1);
                             }),
           fails<DtypeError>("got int64", [=] {
             return pool(whole({1, 1, 2, 2}), 1, 1);
           })}};
}

inline Operation upsample_row() {
  std::map<std::string, Function> variants;
  const std::map<std::string, Interpolation> modes = {{"nearest", Interpolation::nearest},
                                                      {"bilinear", Interpolation::bilinear},
                                                      {"aligned", Interpolation::bilinear_aligned}};
  for (const auto& [name, mode] : modes) {
    const auto by_size = [mode = mode](int64_t height, int64_t width) {
      return [=](const Tensors& x) { return upsample(x[0], height, width, mode); };
    };
    const auto by_scale = [mode = mode](double scale) {
      return [=](const Tensors& x) { return upsample(x[0], scale, mode); };
    };
    variants[name + "_larger"] = by_size(7, 5);
    variants[name + "_smaller"] = by_size(2, 1);
    variants[name + "_twice"] = by_scale(2);
    variants[name + "_fraction"] = by_scale(1.7);
  }
  const auto sizes = [](const Tensor& x, int64_t height, int64_t width) {
    return [=] { return upsample(x, height, width); };
  };
  const auto scaled = [](const Tensor& x, double scale) {
    return [=] { return upsample(x, scale); };
  };
  const Tensor image = of({1, 1, 2, 3});
  return {"upsample",
          variants,
          {fails<ShapeError>("[n, channels, height, width], got [2, 3]", sizes(of({2, 3}), 2, 2)),
           fails<ShapeError>("got [2, 3]", scaled(of({2, 3}), 2)),
           fails<ShapeError>("does not fit into [1, 1, 0, 3]", sizes(of({1, 1, 0, 3}), 2, 2)),
           fails<DtypeError>("got int64", sizes(whole({1, 1, 2, 3}), 2, 2)),
           fails<DtypeError>("got int64", scaled(whole({1, 1, 2, 3}), 2)),
           fails<ValueError>("sizes must be in [1, 1073741824], got 0 and 2", sizes(image, 0, 2)),
           fails<ValueError>("got 2 and -1", sizes(image, 2, -1)),
           fails<ValueError>("got 4611686018427387904", sizes(image, int64_t{1} << 62, 2)),
           fails<ValueError>("scale must be above 0", scaled(image, 0)),
           fails<ValueError>("got -2", scaled(image, -2)),
           fails<ValueError>("got nan", scaled(image, std::nan(""))),
           fails<ValueError>("got inf", scaled(image, INFINITY)),
           fails<ShapeError>("a scale of 0.4 leaves nothing of [1, 1, 2, 3]", scaled(image, 0.4))}};
}

inline std::vector<Operation> pooling_operations() {
  const auto pool = [](const Window2d& window) {
    return [=](const Tensors& x) { return avg_pool2d(x[0], window); };
  };
  const auto refused = [](const Window2d& window) {
    return [=] { return avg_pool2d(of({1, 1, 4, 4}), window); };
  };
  return {{"avg_pool2d",
           {{"pairs", pool({.kernel = {2, 2}, .stride = {2, 2}})},
            {"overlap", pool({.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}})}},
           {fails<DtypeError>("got int64",
                              [] {
                                return avg_pool2d(whole({1, 1, 2, 2}), {});
                              }),
            fails<ShapeError>("a window of 5 does not fit", refused({.kernel = {5, 1}})),
            fails<ValueError>("at most half of the kernel, got 2 and 3",
                              refused({.kernel = {3, 3}, .padding = {2, 2}})),
            fails<ValueError>("a pool has no dilation, got 2",
                              refused({.kernel = {2, 2}, .dilation = {2, 2}}))}},
          line_pool_row("max_pool1d", max_pool1d),
          line_pool_row("avg_pool1d", avg_pool1d),
          adaptive_row("adaptive_max_pool2d", adaptive_max_pool2d),
          adaptive_row("adaptive_avg_pool2d", adaptive_avg_pool2d),
          adaptive_row("adaptive_max_pool1d", adaptive_max_pool1d),
          adaptive_row("adaptive_avg_pool1d", adaptive_avg_pool1d),
          upsample_row()};
}

}  // namespace capstan::testing
