// The rows of products, einsum and linear algebra, and of the look-up of rows.
#pragma once

#include <cmath>

#include "autograd/einsum.h"
#include "autograd/elementwise.h"
#include "autograd/indexing.h"
#include "autograd/linalg.h"
#include "autograd/matmul.h"
#include "autograd/node.h"
#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/create.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> product_operations() {
  const auto dots = [](const Dims& axes_a, const Dims& axes_b) {
    return [=](const Tensors& x) { return tensordot(x[0], x[1], axes_a, axes_b); };
  };
  const auto with_bias = [](const Tensor& bias) { return linear(of({2, 3}), of({4, 3}), &bias); };
  return {
      {"matmul",
       only(matmul),
       {fails<ShapeError>("[2, 3] and [2, 3]",
                          [] {
                            return matmul(of({2, 3}), of({2, 3}));
                          }),
        fails<ShapeError>("[3] and [2, 2]",
                          [] {
                            return matmul(of({3}), of({2, 2}));
                          }),
        fails<ShapeError>("[] and [2]", [] { return matmul(of({}), of({2})); }),
        fails<ShapeError>("[2] and [3] do not broadcast",
                          [] {
                            return matmul(of({2, 1, 4}), of({3, 4, 1}));
                          }),
        fails<DtypeError>("floating point, got int64",
                          [] {
                            return matmul(whole({2, 2}), whole({2, 2}));
                          }),
        fails<DtypeError>("equal, got float32 and float64",
                          [] {
                            return matmul(of({2, 2}), of({2, 2}, Dtype::float64));
                          }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return matmul(of({2, 2}), elsewhere({2, 2}));
                           })}},
      {"linear",
       {{"bias", [](const Tensors& x) { return linear(x[0], x[1], &x[2]); }},
        {"no_bias", [](const Tensors& x) { return linear(x[0], x[1]); }}},
       {fails<ShapeError>("[2, 3] must end in the 2 features of weight [4, 2]",
                          [] {
                            return linear(of({2, 3}), of({4, 2}));
                          }),
        fails<ShapeError>("weight [3]",
                          [] {
                            return linear(of({2, 3}), of({3}));
                          }),
        fails<ShapeError>("input []",
                          [] {
                            return linear(of({}), of({4, 2}));
                          }),
        fails<ShapeError>("bias must be [4] for weight [4, 3], got [3]",
                          [=] { return with_bias(of({3})); }),
        fails<DtypeError>("equal, got float32 and float64",
                          [=] { return with_bias(of({4}, Dtype::float64)); }),
        fails<DtypeError>("equal, got float32 and float64",
                          [] {
                            return linear(of({2, 3}), of({4, 3}, Dtype::float64));
                          }),
        fails<DtypeError>("got int64",
                          [] {
                            return linear(whole({2, 3}), whole({4, 3}));
                          }),
        fails<DeviceError>("cpu:0 and meta", [=] { return with_bias(elsewhere({4})); }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return linear(of({2, 3}), elsewhere({4, 3}));
                           })}},
      {"bmm",
       only(bmm),
       {fails<ShapeError>("[2, 3] and [3, 2]",
                          [] {
                            return bmm(of({2, 3}), of({3, 2}));
                          }),
        fails<ShapeError>("[2, 1, 3] and [1, 3, 1]",
                          [] {
                            return bmm(of({2, 1, 3}), of({1, 3, 1}));
                          }),
        fails<ShapeError>("[1, 1, 3] and [1, 2, 1]",
                          [] {
                            return bmm(of({1, 1, 3}), of({1, 2, 1}));
                          }),
        fails<DtypeError>("got int64",
                          [] {
                            return bmm(whole({1, 1, 1}), whole({1, 1, 1}));
                          }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return bmm(of({1, 1, 1}), elsewhere({1, 1, 1}));
                           })}},
      {"addmm",
       {{"sum", [](const Tensors& x) { return addmm(x[0], x[1], x[2]); }},
        {"scaled", [](const Tensors& x) { return addmm(x[0], x[1], x[2], 0.5, -2); }}},
       {fails<ShapeError>("[2, 3] and [2, 3]",
                          [] {
                            return addmm(of({}), of({2, 3}), of({2, 3}));
                          }),
        fails<ShapeError>("[3] and [2, 2] do not broadcast",
                          [] {
                            return addmm(of({3}), of({2, 3}), of({3, 2}));
                          }),
        fails<ShapeError>("[1, 2, 2] does not broadcast to the product's [2, 2]",
                          [] {
                            return addmm(of({1, 2, 2}), of({2, 3}), of({3, 2}));
                          }),
        fails<DtypeError>("equal, got float64 and float32",
                          [] {
                            return addmm(of({}, Dtype::float64), of({2, 3}), of({3, 2}));
                          })}},
      {"dot",
       only(dot),
       {fails<ShapeError>("[2] and [3]", [] { return dot(of({2}), of({3})); }),
        fails<ShapeError>("[1, 1] and [1, 1]",
                          [] {
                            return dot(of({1, 1}), of({1, 1}));
                          }),
        fails<DtypeError>("got int64", [] { return dot(whole({2}), whole({2})); })}},
      {"outer",
       only(outer),
       {fails<ShapeError>("[2, 1] and [3]",
                          [] {
                            return outer(of({2, 1}), of({3}));
                          }),
        fails<DeviceError>("cpu:0 and meta", [] { return outer(of({2}), elsewhere({2})); })}},
      {"tensordot",
       {{"one", dots({2}, {0})}, {"two", dots({0, -1}, {1, 0})}, {"none", dots({}, {})}},
       {fails<ShapeError>("axes [0] of [2, 3] and [0] of [3, 2]",
                          [] {
                            return tensordot(of({2, 3}), of({3, 2}), {0}, {0});
                          }),
        fails<ShapeError>("axes [0, 1] of",
                          [] {
                            return tensordot(of({2, 3}), of({3, 2}), {0, 1}, {1});
                          }),
        fails<ShapeError>("name axis 0 twice",
                          [] {
                            return tensordot(of({2, 2}), of({2, 2}), {0, 0}, {0, 1});
                          }),
        fails<DtypeError>("got int64",
                          [] { return tensordot(whole({2}), whole({2}), {0}, {0}); })}},
      {"take_rows",
       only(take_rows),
       {fails<DtypeError>("int64 indices, got float32", [] { return take_rows(of({2}), of({1})); }),
        fails<ShapeError>("got a scalar", [] { return take_rows(of({}), whole({1})); }),
        fails<ValueError>("in [0, 2), got 2 at position 1",
                          [] {
                            return take_rows(of({2}), from_vector<int64_t>({0, 2}, {2}));
                          }),
        fails<ValueError>("in [0, 2), got -1 at position 0",
                          [] { return take_rows(of({2}), from_vector<int64_t>({-1}, {1})); }),
        fails<DeviceError>("cpu:0 and meta",
                           [] { return take_rows(of({2}), elsewhere({1}, Dtype::int64)); })}},
  };
}

inline std::vector<Operation> einsum_operations() {
  const auto sums = [](const std::string& equation) {
    return [equation](const Tensors& x) { return einsum(equation, x); };
  };
  return {{"einsum",
           {{"product", sums("ik,kj->ij")},
            {"implicit", sums("kj, ik")},
            {"batch", sums("bhqd,bhkd->bhqk")},
            {"inner", sums("i,i")},
            {"trace", sums("ii")},
            {"diagonal", sums("iji->ij")},
            {"turned", sums("ijk->kij")},
            {"summed", sums("ijk->j")},
            {"three", sums("ij,jk,kl->il")},
            {"bilinear", sums("bi,oij,bj->bo")},
            {"dots", sums("...ij,...j->...i")},
            {"dots_sum", sums("i...->...")},
            {"free", sums("ij,kl->iljk")},
            {"alone", sums("ij,k->i")}},
           {fails<ValueError>("at least one operand", [] { return einsum("i", {}); }),
            fails<ValueError>("names more than the 1 operands",
                              [] { return einsum("i,i", {of({2})}); }),
            fails<ValueError>("names fewer than the 2 operands",
                              [] {
                                return einsum("i", {of({2}), of({2})});
                              }),
            fails<ShapeError>("'ij' does not name the axes of [2]",
                              [] { return einsum("ij->i", {of({2})}); }),
            fails<ShapeError>("'ij...' does not name the axes of [2]",
                              [] { return einsum("ij...->i", {of({2})}); }),
            fails<ShapeError>("letter 'k' stands for sizes 3 and 2",
                              [] {
                                return einsum("ik,kj", {of({2, 3}), of({2, 3})});
                              }),
            fails<ShapeError>("letter 'i' stands for sizes 2 and 3",
                              [] {
                                return einsum("ii", {of({2, 3})});
                              }),
            fails<ValueError>("may hold letters",
                              [] {
                                return einsum("i1", {of({2, 3})});
                              }),
            fails<ValueError>("may hold letters", [] { return einsum("i->i->", {of({2})}); }),
            fails<ValueError>("the result of 'i->j' must name letters",
                              [] { return einsum("i->j", {of({2})}); }),
            fails<ValueError>("each once", [] { return einsum("i->ii", {of({2})}); }),
            fails<DtypeError>("got int64", [] { return einsum("i", {whole({2})}); }),
            fails<DtypeError>("equal, got float32 and float64",
                              [] {
                                return einsum("i,i", {of({2}), of({2}, Dtype::float64)});
                              }),
            fails<DeviceError>("cpu:0 and meta", [] {
              return einsum("i,i", {of({2}), elsewhere({2})});
            })}}};
}

inline std::vector<Operation> linalg_operations() {
  const auto definite = [](const Tensor& x) {
    return matmul(x, transpose(x, -2, -1)) + eye(x.size(-1), {x.dtype(), x.device()});
  };
  const auto of_definite = [definite](auto f) {
    return [=](const Tensors& x) { return f(definite(x[0])); };
  };
  // Decompositions have no gradients.
  const auto parts = [](auto f) { return [=](const Tensors& x) { return f(detach(x[0])); }; };
  const auto failures = [](auto f, bool square) {
    std::vector<Failure> all = {fails<DtypeError>("got int64",
                                                  [=] {
                                                    return f(whole({2, 2}));
                                                  }),
                                fails<ShapeError>("got [3]", [=] { return f(of({3})); })};
    if (square) {
      all.push_back(fails<ShapeError>("square matrices [..., n, n], got [2, 3]", [=] {
        return f(of({2, 3}));
      }));
    }
    return all;
  };
  const auto no_gradient = [](auto f, std::vector<Failure> all) {
    all.push_back(fails<GradientError>("detach() its argument", [=] {
      return f(require_grad(of({2, 2})));
    }));
    return all;
  };
  const auto and_singular = [](auto f, const char* text, std::vector<Failure> all) {
    all.push_back(fails<ValueError>(text, [=] {
      return f(cat({reshape(eye(2), {1, 2, 2}), of({1, 2, 2})}));
    }));
    return all;
  };
  const auto sides = [](const Tensor& a) { return solve(a, ones({2, 1}, {a.dtype(), {}})); };
  std::vector<Failure> solve_failures =
      and_singular(sides, "matrix 1 of the batch is singular", failures(sides, true));
  solve_failures.push_back(fails<ShapeError>("got [2, 2] and [3, 1]", [] {
    return solve(of({2, 2}), of({3, 1}));
  }));
  solve_failures.push_back(fails<ShapeError>("do not broadcast", [] {
    return solve(of({2, 2, 2}), of({3, 2, 1}));
  }));
  solve_failures.push_back(fails<DtypeError>("equal, got float32 and float64", [] {
    return solve(of({2, 2}), of({2, 1}, Dtype::float64));
  }));
  solve_failures.push_back(fails<DeviceError>("cpu:0 and meta", [] {
    return solve(of({2, 2}), elsewhere({2, 1}));
  }));
  const auto q_of = [](const Tensor& a) { return qr(a).q; };
  const auto values_of = [](const Tensor& a) { return svd(a).s; };
  const auto roots_of = [](const Tensor& a) { return eigh(a).values; };
  std::vector<Failure> eigh_failures = no_gradient(roots_of, failures(roots_of, true));
  eigh_failures.push_back(
      fails<ValueError>("matrix 0 of the batch has eigenvalues that cannot be found", [=] {
        return roots_of(full({3, 3}, NAN));
      }));
  return {
      {"cholesky", only(of_definite(cholesky)),
       and_singular(cholesky, "matrix 1 of the batch is not positive definite",
                    failures(cholesky, true))},
      {"inverse", only(of_definite(inverse)),
       and_singular(inverse, "matrix 1 of the batch is singular", failures(inverse, true))},
      {"solve", only(solve), solve_failures},
      {"qr",
       {{"q", parts(q_of)}, {"r", parts([](const Tensor& a) { return qr(a).r; })}},
       no_gradient(q_of, failures(q_of, false))},
      {"svd",
       {{"values", parts(values_of)}, {"product", parts([](const Tensor& a) {
                                         const auto [u, s, v] = svd(a);
                                         return matmul(u * unsqueeze(s, -2), transpose(v, -2, -1));
                                       })}},
       no_gradient(values_of, failures(values_of, false))},
      {"eigh",
       {{"values", parts([=](const Tensor& a) { return roots_of(definite(a)); })},
        {"product", parts([=](const Tensor& a) {
           const auto [values, vectors] = eigh(definite(a));
           return matmul(vectors * unsqueeze(values, -2), transpose(vectors, -2, -1));
         })}},
       eigh_failures},
  };
}

}  // namespace capstan::testing
