// The rows of normalisations.
#pragma once

#include "autograd/normalization.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> normalization_operations() {
  // f(x, weight, bias), with and without the two.
  const auto variants = [](const auto& f) {
    return std::map<std::string, Function>{
        {"all", [f](const Tensors& x) { return f(x[0], &x[1], x.size() > 2 ? &x[2] : nullptr); }},
        {"alone", [f](const Tensors& x) { return f(x[0], nullptr, nullptr); }}};
  };
  const auto layer = [](const Tensor& x, const Tensor* weight, const Tensor* bias) {
    return layer_norm(x, {x.size(-1)}, weight, bias);
  };
  const auto rms = [](const Tensor& x, const Tensor* weight, const Tensor*) {
    return rms_norm(x, {x.size(-1)}, weight);
  };
  const auto group = [](const Tensor& x, const Tensor* weight, const Tensor* bias) {
    return group_norm(x, 2, weight, bias);
  };
  const auto instance = [](const Tensor& x, const Tensor* weight, const Tensor* bias) {
    return instance_norm(x, weight, bias);
  };
  const auto batch = [](const Tensor& x, const Tensor* weight, const Tensor* bias) {
    return batch_norm(x, weight, bias);
  };
  const auto lengths = [](const Tensors& x) { return weight_norm(x[0], x[1]); };
  // What every one of them refuses, for an input of `shape` and a weight of size `width`.
  const auto failures = [](const auto& f, const Shape& shape, int64_t width,
                           std::vector<Failure> more) {
    const auto with = [=](const Tensor& weight) {
      return [=] { return f(of(shape), &weight, nullptr); };
    };
    more.insert(more.end(),
                {fails<DtypeError>("got int64", [=] { return f(whole(shape), nullptr, nullptr); }),
                 fails<ShapeError>("weight must be", with(of({width + 1}))),
                 fails<DtypeError>("float32 and float64", with(of({width}, Dtype::float64))),
                 fails<DeviceError>("cpu:0 and meta", with(elsewhere({width})))});
    return more;
  };
  return {
      {"layer_norm", variants(layer),
       failures(layer, {2, 3}, 3,
                {fails<ShapeError>("must end in [4], got [2, 3]",
                                   [] {
                                     return layer_norm(of({2, 3}), {4});
                                   }),
                 fails<ShapeError>("must end in [2, 2, 3]",
                                   [] {
                                     return layer_norm(of({2, 3}), {2, 2, 3});
                                   }),
                 fails<ShapeError>("must end in []", [] { return layer_norm(of({}), {}); }),
                 fails<ShapeError>("bias must be [3] for input [2, 3], got [2]",
                                   [] {
                                     const Tensor bias = of({2});
                                     return layer_norm(of({2, 3}), {3}, nullptr, &bias);
                                   }),
                 fails<ValueError>("epsilon must not be below 0, got -1",
                                   [] {
                                     return layer_norm(of({2, 3}), {3}, nullptr, nullptr, -1);
                                   })})},
      {"rms_norm", variants(rms),
       failures(rms, {2, 3}, 3,
                {fails<ShapeError>("must end in [4]",
                                   [] {
                                     return rms_norm(of({2, 3}), {4});
                                   })})},
      {"group_norm", variants(group),
       failures(group, {2, 4, 3}, 4,
                {fails<ShapeError>("3 channels cannot be cut into 2 equal groups",
                                   [] {
                                     return group_norm(of({2, 3}), 2);
                                   }),
                 fails<ShapeError>("into 0 equal groups",
                                   [] {
                                     return group_norm(of({2, 3}), 0);
                                   }),
                 fails<ShapeError>("[n, channels, ...], got [3]",
                                   [] { return group_norm(of({3}), 1); })})},
      {"instance_norm", variants(instance),
       failures(instance, {2, 4, 3}, 4,
                {fails<ShapeError>("[n, channels, size, ...], got [2, 3]",
                                   [] {
                                     return instance_norm(of({2, 3}));
                                   })})},
      {"batch_norm", variants(batch),
       failures(
           batch, {2, 4}, 4,
           {fails<ShapeError>("more than one value a channel in training, got [1, 3]",
                              [] {
                                return batch_norm(of({1, 3}));
                              }),
            fails<ShapeError>("[n, channels, ...], got [3]", [] { return batch_norm(of({3})); })})},
      {"weight_norm",
       {{"rows", lengths}, {"columns", lengths}, {"whole", lengths}},
       {fails<ShapeError>("do not broadcast",
                          [] {
                            return weight_norm(of({2, 3}), of({2}));
                          }),
        fails<ShapeError>("lengths [2, 2, 3] do not broadcast to the weight [2, 3]",
                          [] {
                            return weight_norm(of({2, 3}), of({2, 2, 3}));
                          }),
        fails<DtypeError>("got int64",
                          [] {
                            return weight_norm(whole({2, 3}), whole({}));
                          }),
        fails<DtypeError>("float32 and float64",
                          [] {
                            return weight_norm(of({2, 3}), of({}, Dtype::float64));
                          }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return weight_norm(of({2, 3}), elsewhere({}));
                           })}},
  };
}

}  // namespace capstan::testing
