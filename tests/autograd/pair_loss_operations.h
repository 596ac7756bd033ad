// The rows of losses of two tensors.
#pragma once

#include "autograd/losses.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> pair_loss_operations() {
  // The three reductions of f(x, reduction).
  const auto variants = [](const auto& f) {
    std::map<std::string, Function> found;
    for (const auto& [name, reduction] : {std::pair{"none", LossReduction::none},
                                          {"sum", LossReduction::sum},
                                          {"mean", LossReduction::mean}}) {
      found[name] = [=, reduction = reduction](const Tensors& x) { return f(x, reduction); };
    }
    return found;
  };
  // What every loss of f(a, b) refuses.
  const auto failures = [](const auto& f, std::vector<Failure> more = {}) {
    more.insert(more.end(), {fails<DtypeError>("got int64",
                                               [=] {
                                                 return f(whole({2, 3}), whole({2, 3}));
                                               }),
                             fails<DtypeError>("equal, got float32 and float64",
                                               [=] {
                                                 return f(of({2, 3}), of({2, 3}, Dtype::float64));
                                               }),
                             fails<ShapeError>("equal, got [2, 3] and [3]",
                                               [=] {
                                                 return f(of({2, 3}), of({3}));
                                               }),
                             fails<DeviceError>("cpu:0 and meta", [=] {
                               return f(of({2, 3}), elsewhere({2, 3}));
                             })});
    return more;
  };
  // The row of a loss f(a, b, reduction).
  const auto row = [=](const char* name, const auto& f, std::vector<Failure> more = {}) {
    return Operation{
        name, variants([f](const Tensors& x, LossReduction r) { return f(x[0], x[1], r); }),
        failures([f](const Tensor& a, const Tensor& b) { return f(a, b, LossReduction::mean); },
                 std::move(more))};
  };

  Operation logits = row(
      "binary_cross_entropy_with_logits",
      [](const Tensor& x, const Tensor& target, LossReduction reduction) {
        return binary_cross_entropy_with_logits(x, target, reduction);
      },
      {fails<ShapeError>("weight [4, 1] must broadcast",
                         [] {
                           const Tensor weight = of({4, 1});
                           return binary_cross_entropy_with_logits(of({1, 3}), of({1, 3}),
                                                                   LossReduction::mean, &weight);
                         }),
       fails<DeviceError>("cpu:0 and meta", [] {
         const Tensor weight = elsewhere({3});
         return binary_cross_entropy_with_logits(of({3}), of({3}), LossReduction::mean, &weight);
       })});
  logits.variants["weighted"] = [](const Tensors& x) {
    const Tensor weight = cast(from_vector<double>({0.5, 2, 3, 1, 1}, {5}), x[0].dtype());
    if (x[0].device() == Device::meta()) {
      const Tensor shape_only = elsewhere({5}, x[0].dtype());
      return binary_cross_entropy_with_logits(x[0], x[1], LossReduction::mean, &shape_only);
    }
    return binary_cross_entropy_with_logits(x[0], x[1], LossReduction::mean, &weight);
  };

  const auto outside = [](double p) {
    return fails<ValueError>("probabilities must be in [0, 1]",
                             [=] { return binary_cross_entropy(full({2}, p), of({2})); });
  };
  const auto pairs = [](const Tensors& x, LossReduction reduction) {
    return cosine_embedding_loss(x[0], x[1], x[2], 0.25, reduction);
  };
  const auto triplets = [](const Tensors& x, LossReduction reduction) {
    return triplet_margin_loss(x[0], x[1], x[2], 1, 2, reduction);
  };
  Operation triplet{
      "triplet_margin_loss", variants(triplets),
      failures(
          [](const Tensor& a, const Tensor& b) { return triplet_margin_loss(a, a, b); },
          {fails<ValueError>("p must be above 0, got 0",
                             [] { return triplet_margin_loss(of({2}), of({2}), of({2}), 1, 0); }),
           fails<ShapeError>("[..., d], got []",
                             [] { return triplet_margin_loss(of({}), of({}), of({})); })})};
  triplet.variants["manhattan"] = [](const Tensors& x) {
    return triplet_margin_loss(x[0], x[1], x[2], 2, 1);
  };
  return {
      row("mse_loss", mse_loss),
      row("l1_loss", l1_loss),
      row("smooth_l1_loss",
          [](const Tensor& a, const Tensor& b, LossReduction r) {
            return smooth_l1_loss(a, b, 0.5, r);
          },
          {fails<ValueError>("beta must be above 0, got 0",
                             [] { return smooth_l1_loss(of({2}), of({2}), 0); })}),
      row("huber_loss",
          [](const Tensor& a, const Tensor& b, LossReduction r) {
            return huber_loss(a, b, 0.5, r);
          },
          {fails<ValueError>("delta must be above 0, got nan",
                             [] { return huber_loss(of({2}), of({2}), NAN); })}),
      row("binary_cross_entropy", binary_cross_entropy, {outside(1.5), outside(-0.5)}),
      logits,
      row("kl_div", kl_div,
          {fails<ShapeError>("[..., classes], got []", [] { return kl_div(of({}), of({})); })}),
      {"cosine_similarity",
       {{"last", [](const Tensors& x) { return cosine_similarity(x[0], x[1]); }},
        {"first", [](const Tensors& x) { return cosine_similarity(x[0], x[1], 0); }}},
       failures([](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b); },
                {fails<ShapeError>("axis 2 is out of range",
                                   [] {
                                     return cosine_similarity(of({2, 3}), of({2, 3}), 2);
                                   }),
                 fails<ValueError>("epsilon must be above 0, got 0",
                                   [] { return cosine_similarity(of({2}), of({2}), 0, 0); })})},
      {"cosine_embedding_loss", variants(pairs),
       failures(
           [](const Tensor& a, const Tensor& b) {
             return cosine_embedding_loss(a, b, ones({2}, {.dtype = Dtype::int64}));
           },
           {fails<ShapeError>("pairs [n, d] and targets [n], got [2, 3] and [3]",
                              [] {
                                return cosine_embedding_loss(of({2, 3}), of({2, 3}), whole({3}));
                              }),
            fails<ValueError>("targets must be 1 or -1",
                              [] {
                                return cosine_embedding_loss(of({2, 3}), of({2, 3}), whole({2}));
                              }),
            fails<DeviceError>("cpu:0 and meta",
                               [] {
                                 return cosine_embedding_loss(of({2, 3}), of({2, 3}),
                                                              elsewhere({2}, Dtype::int64));
                               })})},
      triplet,
  };
}

}  // namespace capstan::testing
