// The rows of element-wise operations.
#pragma once

#include "autograd/elementwise.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline Operation unary_row(const std::string& name, UnaryFunction f, bool floating_only) {
  Operation row{name, only(f), {}};
  if (floating_only) {
    row.failures.push_back(
        fails<DtypeError>("float32 or float64, got int64", [f] { return f(whole({2})); }));
  }
  return row;
}

inline Operation binary_row(const std::string& name, BinaryFunction f) {
  return {name,
          only(f),
          {fails<ShapeError>("[2, 3] and [2, 4] do not broadcast",
                             [f] {
                               return f(of({2, 3}), of({2, 4}));
                             }),
           fails<DeviceError>("one device, got cpu:0 and meta",
                              [f] { return f(of({2}), elsewhere({2})); })}};
}

inline std::vector<Operation> elementwise_operations() {
  const auto to_the = [](double exponent) {
    return [exponent](const Tensors& x) { return power(x[0], exponent); };
  };
  return {
      binary_row("add", add),
      binary_row("subtract", subtract),
      binary_row("multiply", multiply),
      binary_row("divide", divide),
      binary_row("maximum", maximum),
      binary_row("minimum", minimum),
      {"power",
       {{"cube", to_the(3)},
        {"root", to_the(0.5)},
        {"inverse", to_the(-1)},
        {"zero", to_the(0)},
        {"same", to_the(1)}},
       {fails<DtypeError>("float32 or float64, got int64", [] { return power(whole({2}), 2); })}},
      unary_row("negate", negate, false),
      unary_row("absolute", absolute, false),
      unary_row("exp", exp, true),
      unary_row("log", log, true),
      unary_row("sqrt", sqrt, true),
      unary_row("square", square, false),
      unary_row("reciprocal", reciprocal, true),
      unary_row("tanh", capstan::tanh, true),
      unary_row("sigmoid", sigmoid, true),
      unary_row("relu", relu, false),
      binary_row("equal", equal),
      binary_row("not_equal", not_equal),
      binary_row("less", less),
      binary_row("less_equal", less_equal),
      binary_row("greater", greater),
      binary_row("greater_equal", greater_equal),
      {"where",
       only([](const Tensors& x) { return where(x[0], x[1], x[2]); }),
       {fails<DtypeError>("a bool condition, got float32",
                          [] { return where(of({2}), of({2}), of({2})); }),
        fails<ShapeError>("[2] and [3] do not broadcast",
                          [] { return where(of({2}, Dtype::boolean), of({2}), of({3})); }),
        fails<ShapeError>("[2] and [3] do not broadcast",
                          [] { return where(of({2}, Dtype::boolean), of({3}), of({3})); }),
        fails<DeviceError>("cpu:0 and meta",
                           [] { return where(of({2}, Dtype::boolean), of({2}), elsewhere({2})); }),
        fails<DeviceError>(
            "meta and cpu:0",
            [] { return where(elsewhere({2}, Dtype::boolean), of({2}), of({2})); })}},
      {"cast", {{"float64", [](const Tensors& x) { return cast(x[0], Dtype::float64); }}}, {}},
  };
}

}  // namespace capstan::testing
