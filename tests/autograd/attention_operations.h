// The rows of attention.
#pragma once

#include <cmath>

#include "autograd/attention.h"
#include "autograd/elementwise.h"
#include "autograd/node.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> attention_operations() {
  const auto attend = [](const AttentionOptions& options) {
    return
        [=](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], options); };
  };
  const auto dropped = [](bool causal) {
    return [=](const Tensors& x) {
      Generator generator(7);  // as in recorder.py
      return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = causal, .dropout = 0.25},
                                          generator);
    };
  };
  const auto turn = [](const RotaryOptions& options) {
    return [=](const Tensors& x) { return rotary_embedding(x[0], options); };
  };
  const auto shapes = [](const Shape& q, const Shape& k, const Shape& v) {
    return [=] { return scaled_dot_product_attention(of(q), of(k), of(v)); };
  };
  const Shape good{1, 2, 3, 4};
  const auto masked = [good](const Tensor& mask) {
    return
        [=] { return scaled_dot_product_attention(of(good), of(good), of(good), {.mask = mask}); };
  };
  const auto with_dropout = [good](double dropout) {
    return [=] {
      return scaled_dot_product_attention(of(good), of(good), of(good), {.dropout = dropout});
    };
  };
  const auto other = [good](const Tensor& k) {
    return [=] { return scaled_dot_product_attention(of(good), k, of(good)); };
  };
  return {
      {"scaled_dot_product_attention",
       {{"plain", attend({})},
        {"grouped", attend({})},
        {"causal", attend({.causal = true})},
        {"scaled", attend({.scale = 0.25})},
        {"masked",
         [](const Tensors& x) {
           return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]});
         }},
        {"biased",
         [](const Tensors& x) {
           const Tensor mask = cast(x[3], x[0].dtype()) * 0.5;
           return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask});
         }},
        {"dropped", dropped(false)},
        {"dropped_causal", dropped(true)}},
       {fails<ShapeError>("got [2, 3, 4], [2, 3, 4] and [2, 3, 4]",
                          shapes({2, 3, 4}, {2, 3, 4}, {2, 3, 4})),
        fails<ShapeError>("takes q", shapes(good, {2, 2, 3, 4}, good)),
        fails<ShapeError>("takes q", shapes(good, {1, 2, 3, 5}, good)),
        fails<ShapeError>("takes q", shapes(good, good, {1, 2, 4, 4})),
        fails<ShapeError>("2 heads cannot share 3 groups",
                          shapes(good, {1, 3, 3, 4}, {1, 3, 3, 4})),
        fails<ShapeError>("2 heads cannot share 0 groups",
                          shapes(good, {1, 0, 3, 4}, {1, 0, 3, 4})),
        fails<ShapeError>("shapes [4] and [1, 2, 3, 3] do not broadcast", masked(of({4}))),
        fails<ShapeError>("mask [2, 1, 1, 1] does not", masked(of({2, 1, 1, 1}))),
        fails<DtypeError>("must be bool or float32 as the queries, got int64", masked(whole({3}))),
        fails<DeviceError>("cpu:0 and meta", masked(elsewhere({3}))),
        fails<GradientError>("detach() it", masked(require_grad(of({3})))),
        fails<ValueError>("dropout must be in [0, 1), got 1", with_dropout(1)),
        fails<ValueError>("one block along each axis",
                          [good] {
                            return scaled_dot_product_attention(
                                of(good), of(good), of(good),
                                {.dropout = 0.5, .parts = {{1, 0, 4, 2, 3}}});
                          }),
        fails<ValueError>("got -0.5", with_dropout(-0.5)),
        fails<ValueError>("got nan", with_dropout(std::nan(""))),
        fails<DtypeError>(
            "got int64",
            [=] { return scaled_dot_product_attention(whole(good), whole(good), whole(good)); }),
        fails<DtypeError>("float32 and float64", other(of(good, Dtype::float64))),
        fails<DeviceError>("cpu:0 and meta", other(elsewhere(good)))}},
      {"rotary_embedding",
       {{"halves", turn({})},
        {"offset", turn({.offset = 5})},
        {"pairs", turn({.offset = 1, .interleaved = true})}},
       {fails<ShapeError>("an even d, got [2, 3]",
                          [] {
                            return rotary_embedding(of({2, 3}));
                          }),
        fails<ShapeError>("an even d, got [2]", [] { return rotary_embedding(of({2})); }),
        fails<ValueError>("base must be above 0, got 0",
                          [] {
                            return rotary_embedding(of({2, 2}), {.base = 0});
                          }),
        fails<DtypeError>("got int64",
                          [] {
                            return rotary_embedding(whole({2, 2}));
                          })}},
  };
}

}  // namespace capstan::testing
