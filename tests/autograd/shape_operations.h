// The rows of reductions and of operations that change how elements are laid out.
#pragma once

#include "autograd/reduce.h"
#include "autograd/views.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

using Reducer = Tensor (*)(const Tensor&, const Dims&, bool);

inline Operation reduction_row(const std::string& name, Reducer f,
                               const std::vector<Failure>& failures) {
  const auto along = [f](const Dims& axes, bool keepdim) {
    return [=](const Tensors& x) { return f(x[0], axes, keepdim); };
  };
  Operation row{name,
                {{"all", along({}, false)},
                 {"last", along({-1}, false)},
                 {"two", along({2, 0}, true)},
                 {"middle", along({1}, true)}},
                failures};
  row.failures.push_back(fails<ShapeError>("axis 2 is out of range for a tensor with 2 axes", [f] {
    return f(of({2, 3}), {2}, false);
  }));
  row.failures.push_back(fails<ShapeError>("axes [0, -2] name axis 0 twice", [f] {
    return f(of({2, 3}), {0, -2}, false);
  }));
  return row;
}

inline std::vector<Operation> reduce_operations() {
  const auto without_elements = [](Reducer f) {
    return fails<ShapeError>("[3, 0] has no elements along the reduced axes", [f] {
      return f(of({3, 0}), {1}, false);
    });
  };
  const auto to_shape = [](const Shape& shape) {
    return [shape](const Tensors& x) { return sum_to(x[0], shape); };
  };
  return {
      reduction_row("sum", sum, {}),
      reduction_row(
          "mean", mean,
          {fails<DtypeError>("float32 or float64, got int64", [] { return mean(whole({2})); })}),
      reduction_row("max", max, {without_elements(max)}),
      reduction_row("min", min, {without_elements(min)}),
      {"argmax",
       {{"last", [](const Tensors& x) { return argmax(x[0], -1); }},
        {"first", [](const Tensors& x) { return argmax(x[0], 0); }}},
       {fails<ShapeError>("axis 1 is out of range", [] { return argmax(of({2}), 1); }),
        fails<ShapeError>("axis 0 is out of range", [] { return argmax(of({}), 0); }),
        fails<ShapeError>("axis -1 of [2, 0] is empty",
                          [] {
                            return argmax(of({2, 0}), -1);
                          })}},
      {"sum_to",
       {{"column", to_shape({3, 1})},
        {"scalar", to_shape({})},
        {"same", to_shape({2, 3, 4})},
        {"one", to_shape({1, 3, 4})}},
       {fails<ShapeError>("[3] and [2] do not broadcast", [] { return sum_to(of({3}), {2}); }),
        fails<ShapeError>("[3] does not broadcast to [1]", [] { return sum_to(of({1}), {3}); }),
        fails<ShapeError>("[1, 3] does not broadcast to [3]",
                          [] {
                            return sum_to(of({3}), {1, 3});
                          })}},
  };
}

inline std::vector<Operation> view_operations() {
  const auto view = [](auto f) { return [f](const Tensors& x) { return f(x[0]); }; };
  return {
      {"reshape",
       {{"pairs", view([](const Tensor& x) {
           return reshape(x, {-1, 2});
         })}},
       {fails<ShapeError>("[4] cannot hold 6 elements", [] { return reshape(of({6}), {4}); }),
        fails<ShapeError>("[-1, 4] cannot hold 6",
                          [] {
                            return reshape(of({6}), {-1, 4});
                          }),
        fails<ShapeError>("[-1, 0] cannot hold 0",
                          [] {
                            return reshape(of({0}), {-1, 0});
                          }),
        fails<ShapeError>("one may be -1",
                          [] {
                            return reshape(of({6}), {-1, -1});
                          }),
        fails<ShapeError>("must not be negative",
                          [] {
                            return reshape(of({6}), {-2, -3});
                          })}},
      {"flatten",
       {{"all", view([](const Tensor& x) { return flatten(x); })},
        {"tail", view([](const Tensor& x) { return flatten(x, 1); })}},
       {fails<ShapeError>("must not come after the last, got 1 and 0",
                          [] {
                            return flatten(of({2, 3}), 1, 0);
                          }),
        fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return flatten(of({2, 3}), 2);
                          })}},
      {"transpose",
       {{"ends", view([](const Tensor& x) { return transpose(x, 0, -1); })}},
       {fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return transpose(of({2, 3}), 0, 2);
                          }),
        fails<ShapeError>("axis -3 is out of range",
                          [] {
                            return transpose(of({2, 3}), -3, 0);
                          })}},
      {"permute",
       {{"cycle", view([](const Tensor& x) {
           return permute(x, {2, 0, -2});
         })}},
       {fails<ShapeError>("[0, 0] must name each",
                          [] {
                            return permute(of({2, 3}), {0, 0});
                          }),
        fails<ShapeError>("[1] must name each",
                          [] {
                            return permute(of({2, 3}), {1});
                          }),
        fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return permute(of({2, 3}), {0, 2});
                          })}},
      {"slice",
       {{"step", view([](const Tensor& x) { return slice(x, 1, 1, -1, 2); })},
        {"none", view([](const Tensor& x) { return slice(x, -1, 3, 3); })}},
       {fails<ShapeError>("axis 1 is out of range", [] { return slice(of({2}), 1, 0, 1); }),
        fails<ValueError>("step must be at least 1, got 0",
                          [] { return slice(of({2}), 0, 0, 1, 0); })}},
      {"select",
       {{"last", view([](const Tensor& x) { return select(x, -1, -1); })},
        {"first", view([](const Tensor& x) { return select(x, 0, 1); })}},
       {fails<ShapeError>("axis 1 is out of range", [] { return select(of({2}), 1, 0); }),
        fails<ShapeError>("index 2 is out of range", [] { return select(of({2}), 0, 2); }),
        fails<ShapeError>("index -3 is out of range", [] { return select(of({2}), 0, -3); })}},
      {"expand",
       {{"rows", view([](const Tensor& x) {
           return expand(x, {4, 2, 3});
         })},
        {"empty", view([](const Tensor& x) {
           return expand(x, {0, 3});
         })}},
       {fails<ShapeError>("[2] does not expand to [3]", [] { return expand(of({2}), {3}); }),
        fails<ShapeError>("[1, 2] does not expand to [2]",
                          [] {
                            return expand(of({1, 2}), {2});
                          }),
        fails<ShapeError>("[1] does not expand to [-1]", [] { return expand(of({1}), {-1}); })}},
      {"squeeze",
       {{"middle", view([](const Tensor& x) { return squeeze(x, 1); })},
        {"last", view([](const Tensor& x) { return squeeze(x, -1); })}},
       {fails<ShapeError>("axis 0 of [2] must have size 1", [] { return squeeze(of({2}), 0); }),
        fails<ShapeError>("axis 1 is out of range", [] { return squeeze(of({1}), 1); })}},
      {"unsqueeze",
       {{"first", view([](const Tensor& x) { return unsqueeze(x, 0); })},
        {"last", view([](const Tensor& x) { return unsqueeze(x, -1); })}},
       {fails<ShapeError>("axis 2 is out of range", [] { return unsqueeze(of({2}), 2); })}},
      {"contiguous", only(contiguous), {}},
      {"clone", only(clone), {}},
  };
}

}  // namespace capstan::testing
