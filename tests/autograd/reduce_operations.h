// The rows of reductions.
#pragma once

#include <cmath>

#include "autograd/reduce.h"
#include "autograd/statistics.h"
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

inline Operation position_row(const std::string& name, Tensor (*f)(const Tensor&, int64_t, bool)) {
  return {name,
          {{"last", [f](const Tensors& x) { return f(x[0], -1, false); }},
           {"first", [f](const Tensors& x) { return f(x[0], 0, false); }},
           {"keepdim", [f](const Tensors& x) { return f(x[0], 1, true); }}},
          {fails<ShapeError>("axis 1 is out of range", [f] { return f(of({2}), 1, false); }),
           fails<ShapeError>("axis 0 is out of range", [f] { return f(of({}), 0, false); }),
           fails<ShapeError>("axis -1 of [2, 0] is empty", [f] {
             return f(of({2, 0}), -1, false);
           })}};
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
          {fails<DtypeError>("floating point, got int64", [] { return mean(whole({2})); })}),
      reduction_row("max", max, {without_elements(max)}),
      reduction_row("min", min, {without_elements(min)}),
      reduction_row("prod", prod, {}),
      reduction_row("any", any, {}),
      reduction_row("all", all, {}),
      position_row("argmax", argmax),
      position_row("argmin", argmin),
      {"cumsum",
       {{"last", [](const Tensors& x) { return cumsum(x[0], -1); }},
        {"first", [](const Tensors& x) { return cumsum(x[0], 0); }}},
       {fails<ShapeError>("axis 1 is out of range", [] { return cumsum(of({2}), 1); }),
        fails<ShapeError>("axis 0 is out of range", [] { return cumsum(of({}), 0); })}},
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

inline std::vector<Operation> statistic_operations() {
  // f(x, axes, keepdim)
  const auto row = [](const std::string& name, const auto& f, std::vector<Failure> failures) {
    const auto along = [f](const Dims& axes, bool keepdim) {
      return [=](const Tensors& x) { return f(x[0], axes, keepdim); };
    };
    failures.push_back(fails<DtypeError>("floating point, got int64",
                                         [f] { return f(whole({2}), Dims{}, false); }));
    failures.push_back(
        fails<ShapeError>("axis 1 is out of range", [f] { return f(of({2}), Dims{1}, false); }));
    failures.push_back(fails<ShapeError>("name axis 0 twice", [f] {
      return f(of({2}), Dims{0, 0}, false);
    }));
    return Operation{
        name,
        {{"all", along({}, false)}, {"two", along({2, 0}, true)}, {"middle", along({1}, false)}},
        failures};
  };
  const auto options = [](const auto& f) { return [f](const Tensors& x) { return f(x[0]); }; };
  Operation var_row = row(
      "var",
      [](const Tensor& x, const Dims& axes, bool keepdim) { return var(x, axes, 1, keepdim); }, {});
  var_row.variants["biased"] = options([](const Tensor& x) { return var(x, {1}, 0); });
  Operation stddev_row = row(
      "stddev",
      [](const Tensor& x, const Dims& axes, bool keepdim) { return stddev(x, axes, 1, keepdim); },
      {});
  stddev_row.variants["biased"] = options([](const Tensor& x) { return stddev(x, {1}, 0); });
  Operation norm_row =
      row("norm",
          [](const Tensor& x, const Dims& axes, bool keepdim) { return norm(x, 2, axes, keepdim); },
          {fails<ValueError>("p must be above 0, got 0", [] { return norm(of({2}), 0); }),
           fails<ValueError>("got nan", [] { return norm(of({2}), NAN); }),
           fails<ShapeError>("axis 1 is out of range", [] { return norm(of({2}), 1, {1}); })});
  norm_row.variants["one"] = options([](const Tensor& x) { return norm(x, 1, {1}); });
  norm_row.variants["three"] = options([](const Tensor& x) { return norm(x, 3, {1}); });
  norm_row.variants["largest"] = options([](const Tensor& x) { return norm(x, INFINITY, {1}); });
  return {var_row, stddev_row, norm_row, row("logsumexp", logsumexp, {})};
}

}  // namespace capstan::testing
