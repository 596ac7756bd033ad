// The rows of losses, images and dropout.
#pragma once

#include "autograd/convolution.h"
#include "autograd/dropout.h"
#include "autograd/elementwise.h"
#include "autograd/pooling.h"
#include "autograd/softmax.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline Operation softmax_row(const std::string& name, Tensor (*f)(const Tensor&, int64_t)) {
  return {name,
          {{"last", [f](const Tensors& x) { return f(x[0], -1); }},
           {"first", [f](const Tensors& x) { return f(x[0], 0); }}},
          {fails<DtypeError>("got int64",
                             [f] {
                               return f(whole({2, 3}), -1);
                             }),
           fails<ShapeError>("axis -1 is out of range", [f] { return f(of({}), -1); }),
           fails<ShapeError>("axis 2 is out of range", [f] {
             return f(of({2, 3}), 2);
           })}};
}

inline std::vector<Operation> loss_operations() {
  const auto loss = [](LossReduction reduction, int64_t ignore = -100) {
    return [=](const Tensors& x) { return cross_entropy(x[0], x[1], reduction, ignore); };
  };
  const auto target = [](int64_t value) {
    return cross_entropy(of({2, 3}), from_vector<int64_t>({0, value}, {2}));
  };
  const auto weighted = [](double smoothing, LossReduction reduction = LossReduction::mean) {
    return [=](const Tensors& x) {
      const Tensor weights = cast(x[2], x[0].dtype());
      return cross_entropy(
          x[0], x[1], {.reduction = reduction, .label_smoothing = smoothing, .weights = weights});
    };
  };
  const auto nll = [](LossReduction reduction) {
    return [=](const Tensors& x) {
      return nll_loss(x[0], x[1], {.reduction = reduction, .weights = cast(x[2], x[0].dtype())});
    };
  };
  const auto with_options = [](const ClassLossOptions& options) {
    return cross_entropy(of({2, 3}), whole({2}), options);
  };
  return {
      softmax_row("softmax", softmax),
      softmax_row("log_softmax", log_softmax),
      {"cross_entropy",
       {{"mean", loss(LossReduction::mean)},
        {"sum", loss(LossReduction::sum)},
        {"none", loss(LossReduction::none)},
        {"ignore_1", loss(LossReduction::mean, 1)},
        {"smooth", weighted(0.25)},
        {"smooth_none", weighted(0.25, LossReduction::none)},
        {"weighted", weighted(0)}},
       {fails<DtypeError>("floating point, got int64",
                          [] {
                            return cross_entropy(whole({2, 3}), whole({2}));
                          }),
        fails<DtypeError>("int64 targets, got float32",
                          [] {
                            return cross_entropy(of({2, 3}), of({2}));
                          }),
        fails<ShapeError>("got [2, 3] and [3]",
                          [] {
                            return cross_entropy(of({2, 3}), whole({3}));
                          }),
        fails<ShapeError>("got [3] and [3]", [] { return cross_entropy(of({3}), whole({3})); }),
        fails<ShapeError>("got [2, 3] and [2, 1]",
                          [] {
                            return cross_entropy(of({2, 3}), whole({2, 1}));
                          }),
        fails<ValueError>("in [0, 3) or the ignored -100, got 3 at position 1",
                          [=] { return target(3); }),
        fails<ValueError>("got -1 at position 1", [=] { return target(-1); }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return cross_entropy(of({2, 3}), elsewhere({2}, Dtype::int64));
                           }),
        fails<ValueError>("smoothing must be in [0, 1], got 1.5",
                          [=] { return with_options({.label_smoothing = 1.5}); }),
        fails<ValueError>("got nan", [=] { return with_options({.label_smoothing = NAN}); }),
        fails<ShapeError>("weights must be [3] for logits [2, 3], got [2]",
                          [=] { return with_options({.weights = of({2})}); }),
        fails<DtypeError>("weights must be float32 as the logits, got float64",
                          [=] { return with_options({.weights = of({3}, Dtype::float64)}); }),
        fails<DeviceError>("cpu:0 and meta",
                           [=] { return with_options({.weights = elsewhere({3})}); })}},
      {"nll_loss",
       {{"mean", nll(LossReduction::mean)},
        {"sum", nll(LossReduction::sum)},
        {"none", nll(LossReduction::none)}},
       {fails<ValueError>("use cross_entropy()",
                          [] {
                            return nll_loss(of({1, 3}), whole({1}), {.label_smoothing = 0.1});
                          }),
        fails<ValueError>("in [0, 3) or the ignored -100, got 3 at position 0",
                          [] {
                            return nll_loss(of({1, 3}), from_vector<int64_t>({3}, {1}));
                          }),
        fails<ShapeError>("got [2, 3] and [3]",
                          [] {
                            return nll_loss(of({2, 3}), whole({3}));
                          })}},
  };
}

inline std::vector<Operation> image_operations() {
  const auto conv = [](const Window2d& window, bool bias) {
    return [=](const Tensors& x) { return conv2d(x[0], x[1], bias ? &x[2] : nullptr, window); };
  };
  const auto grouped = [](const Window2d& window, int64_t groups) {
    return [=](const Tensors& x) { return conv2d(x[0], x[1], &x[2], window, groups); };
  };
  const auto pool = [](const Window2d& window) {
    return [=](const Tensors& x) { return max_pool2d(x[0], window); };
  };
  const Window2d pairs{.kernel = {2, 2}, .stride = {2, 2}};
  const auto image_failures = [](const auto& run) {
    const auto with = [run](const Window2d& window) {
      return [=] { return run(of({1, 1, 4, 4}), window); };
    };
    return std::vector<Failure>{
        fails<DtypeError>("got int64",
                          [=] {
                            return run(whole({1, 1, 4, 4}), Window2d{});
                          }),
        fails<ShapeError>("[n, channels, height, width], got [4, 4]",
                          [=] {
                            return run(of({4, 4}), Window2d{});
                          }),
        fails<ShapeError>("a window of 5 does not fit into [1, 1, 4, 4] with padding 0",
                          with({.kernel = {5, 1}})),
        fails<ShapeError>("does not fit into [1, 1, 0, 4]",
                          [=] {
                            return run(of({1, 1, 0, 4}), {.kernel = {2, 2}, .padding = {1, 1}});
                          }),
        fails<ValueError>("at least 1", with({.kernel = {0, 1}})),
        fails<ValueError>("at least 1", with({.stride = {1, 0}})),
        fails<ValueError>("padding in [0, 1073741824]", with({.padding = {-1, 0}})),
        fails<ValueError>("padding in [0, 1073741824]", with({.padding = {0, INT64_MAX}}))};
  };

  Operation conv2d_row{
      "conv2d",
      {{"plain", conv({.kernel = {3, 2}}, true)},
       {"strided", conv({.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1}}, true)},
       {"no_bias", conv({.kernel = {3, 3}, .padding = {1, 1}}, false)},
       {"point", conv({}, true)},
       {"dilated", conv({.kernel = {3, 2}, .padding = {1, 2}, .dilation = {2, 3}}, true)},
       {"grouped", grouped({.kernel = {3, 3}}, 2)},
       {"depthwise", grouped({.kernel = {3, 3}, .padding = {1, 1}}, 3)}},
      image_failures([](const Tensor& x, const Window2d& w) {
        return conv2d(x, of({1, 1, std::max<int64_t>(w.kernel[0], 0), w.kernel[1]}), nullptr, w);
      })};
  const auto misfit = [](const Tensor& weight, const Tensor& bias) {
    return conv2d(of({1, 2, 4, 4}), weight, &bias, {.kernel = {3, 3}});
  };
  const Shape good{5, 2, 3, 3};
  conv2d_row.failures.insert(
      conv2d_row.failures.end(),
      {fails<ValueError>("dilation must be in [1, 1073741824], got 0",
                         [=] {
                           return conv2d(of({1, 2, 4, 4}), of(good), nullptr,
                                         {.kernel = {3, 3}, .dilation = {1, 0}});
                         }),
       fails<ShapeError>("a window of 5 does not fit",
                         [=] {
                           return conv2d(of({1, 2, 4, 4}), of(good), nullptr,
                                         {.kernel = {3, 3}, .dilation = {2, 1}});
                         }),
       fails<ValueError>(
           "2 channels and 5 outputs cannot be cut into 2 equal groups",
           [=] {
             return conv2d(of({1, 2, 4, 4}), of({5, 1, 3, 3}), nullptr, {.kernel = {3, 3}}, 2);
           }),
       fails<ValueError>(
           "into 0 equal groups",
           [=] {
             return conv2d(of({1, 2, 4, 4}), of(good), nullptr, {.kernel = {3, 3}}, 0);
           }),
       fails<ShapeError>("weight must be [out, 2, 3, 3]",
                         [=] {
                           return misfit(of({5, 1, 3, 3}), of({5}));
                         }),
       fails<ShapeError>("weight must be [out, 2, 3, 3]",
                         [=] {
                           return misfit(of({5, 2, 3, 2}), of({5}));
                         }),
       fails<ShapeError>("weight must be", [=] { return misfit(of({}), of({5})); }),
       fails<ShapeError>("bias must be [5]", [=] { return misfit(of(good), of({4})); }),
       fails<DtypeError>("equal, got float32 and float64",
                         [=] { return misfit(of(good, Dtype::float64), of({5})); }),
       fails<DtypeError>("equal, got float32 and float64",
                         [=] { return misfit(of(good), of({5}, Dtype::float64)); }),
       fails<DeviceError>("cpu:0 and meta", [=] { return misfit(elsewhere(good), of({5})); }),
       fails<DeviceError>("cpu:0 and meta", [=] { return misfit(of(good), elsewhere({5})); })});

  Operation pool_row{
      "max_pool2d",
      {{"pairs", pool(pairs)},
       {"overlap", pool({.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}})}},
      image_failures([](const Tensor& x, const Window2d& w) { return max_pool2d(x, w); })};
  pool_row.failures.push_back(fails<ValueError>("at most half of the kernel, got 2 and 3", [] {
    return max_pool2d(of({1, 1, 4, 4}), {.kernel = {3, 3}, .padding = {2, 2}});
  }));
  return {conv2d_row, pool_row};
}

inline std::vector<Operation> dropout_operations() {
  return {{"dropout",
           {{"quarter",
             [](const Tensors& x) {
               Generator generator(7);  // as in recorder.py
               return dropout(x[0], 0.25, generator);
             }}},
           {fails<ValueError>("in [0, 1), got 1", [] { return dropout(of({2}), 1); }),
            fails<ValueError>("in [0, 1), got -0.5", [] { return dropout(of({2}), -0.5); }),
            fails<ValueError>("got nan", [] { return dropout(of({2}), std::nan("")); }),
            fails<ShapeError>("the part [3] is not one of [2]",
                              [] { return dropout(of({2}), 0.5, part_of({3}, {})); }),
            fails<DtypeError>("got int64", [] { return dropout(whole({2}), 0.5); })}}};
}

}  // namespace capstan::testing
