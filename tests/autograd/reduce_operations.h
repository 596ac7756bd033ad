// The rows of reductions.
#pragma once

#include "autograd/reduce.h"
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

}  // namespace capstan::testing
