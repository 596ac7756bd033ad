// The rows of element-wise operations.
#pragma once

#include <cmath>

#include "autograd/elementwise.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline Operation unary_row(const std::string& name, UnaryFunction f, bool floating_only) {
  Operation row{name, only(f), {}};
  if (floating_only) {
    row.failures.push_back(
        fails<DtypeError>("floating point, got int64", [f] { return f(whole({2})); }));
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

inline Operation divisor_row(const std::string& name, BinaryFunction f) {
  Operation row = binary_row(name, f);
  row.failures.push_back(fails<ValueError>("an integer cannot be divided by 0",
                                           [f] { return f(whole({2}), whole({2})); }));
  row.failures.push_back(fails<DtypeError>(
      "numbers, got bool", [f] { return f(of({2}, Dtype::boolean), of({2}, Dtype::boolean)); }));
  return row;
}

inline std::vector<Operation> elementwise_operations() {
  const auto to_the = [](double exponent) {
    return [exponent](const Tensors& x) { return power(x[0], exponent); };
  };
  Operation atan2_row = binary_row("atan2", capstan::atan2);
  atan2_row.failures.push_back(fails<DtypeError>(
      "floating point, got int64", [] { return capstan::atan2(whole({2}), whole({2})); }));
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
        {"same", to_the(1)},
        {"tensor", [](const Tensors& x) { return power(x[0], x[1]); }},
        {"base", [](const Tensors& x) { return power(2.5, x[0]); }}},
       {fails<DtypeError>("floating point, got int64", [] { return power(whole({2}), 2); }),
        fails<DtypeError>("floating point, got int64",
                          [] { return power(whole({2}), whole({2})); }),
        fails<ShapeError>("[2] and [3] do not broadcast", [] { return power(of({2}), of({3})); })}},
      unary_row("negate", negate, false),
      unary_row("absolute", absolute, false),
      divisor_row("floor_divide", floor_divide),
      divisor_row("remainder", remainder),
      atan2_row,
      binary_row("logical_and", logical_and),
      binary_row("logical_or", logical_or),
      binary_row("logical_xor", logical_xor),
      unary_row("logical_not", logical_not, false),
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

inline std::vector<Operation> function_operations() {
  std::vector<Operation> rows;
  for (const auto& [name, f] : std::map<std::string, UnaryFunction>{{"sign", sign},
                                                                    {"floor", floor},
                                                                    {"ceil", ceil},
                                                                    {"round", round},
                                                                    {"trunc", trunc},
                                                                    {"isnan", isnan},
                                                                    {"isinf", isinf},
                                                                    {"isfinite", isfinite}}) {
    rows.push_back(unary_row(name, f, false));
  }
  for (const auto& [name, f] : std::map<std::string, UnaryFunction>{{"rsqrt", rsqrt},
                                                                    {"exp2", exp2},
                                                                    {"expm1", expm1},
                                                                    {"log2", log2},
                                                                    {"log10", log10},
                                                                    {"log1p", log1p},
                                                                    {"sin", sin},
                                                                    {"cos", cos},
                                                                    {"tan", tan},
                                                                    {"asin", asin},
                                                                    {"acos", acos},
                                                                    {"atan", atan},
                                                                    {"sinh", sinh},
                                                                    {"cosh", cosh},
                                                                    {"asinh", asinh},
                                                                    {"acosh", acosh},
                                                                    {"atanh", atanh},
                                                                    {"erf", erf}}) {
    rows.push_back(unary_row(name, f, true));
  }
  rows.push_back(
      {"clamp",
       only([](const Tensors& x) { return clamp(x[0], -0.5, 1.25); }),
       {fails<ValueError>("low must not be above high, got 2", [] { return clamp(of({2}), 2, 1); }),
        fails<ValueError>("got nan", [] { return clamp(of({2}), NAN, 1); })}});
  return rows;
}

inline std::vector<Operation> activation_operations() {
  const auto row = [](const std::string& name, std::map<std::string, Function> variants,
                      std::vector<Failure> failures = {}) {
    const Function f = variants.begin()->second;
    failures.push_back(
        fails<DtypeError>("floating point, got int64", [f] { return f({whole({2})}); }));
    return Operation{name, variants, failures};
  };
  const auto one = [](auto f, auto... options) {
    return [=](const Tensors& x) { return f(x[0], options...); };
  };
  const auto slopes = [](const Tensors& x) { return prelu(x[0], x[1]); };
  return {
      row("leaky_relu", only(one(leaky_relu, 0.2))),
      {"prelu",
       {{"one", slopes}, {"channels", slopes}},
       {fails<DtypeError>("floating point, got int64", [] { return prelu(whole({2}), of({1})); }),
        fails<DtypeError>("floating point, got int64", [] { return prelu(of({2}), whole({1})); }),
        fails<DeviceError>("cpu:0 and meta", [] { return prelu(of({2}), elsewhere({1})); }),
        fails<ShapeError>("slope must be [1], or [3] for the channels of [2, 3], got [2]",
                          [] {
                            return prelu(of({2, 3}), of({2}));
                          }),
        fails<ShapeError>("slope must be [1], or [1] for the channels of [3], got [3]",
                          [] { return prelu(of({3}), of({3})); }),
        fails<ShapeError>("got [1, 3]",
                          [] {
                            return prelu(of({2, 3}), of({1, 3}));
                          })}},
      row("elu", only(one(elu, 0.7))),
      row("selu", only(selu)),
      row("celu", only(one(celu, 0.5)),
          {fails<ValueError>("alpha must be above 0 and finite, got 0",
                             [] { return celu(of({2}), 0); }),
           fails<ValueError>("got -1", [] { return celu(of({2}), -1); }),
           fails<ValueError>("got nan", [] { return celu(of({2}), NAN); }),
           fails<ValueError>("got inf", [] { return celu(of({2}), INFINITY); })}),
      row("hardtanh", only(one(hardtanh, -0.5, 1.5)),
          {fails<ValueError>("low must not be above high, got 1 and 0",
                             [] { return hardtanh(of({2}), 1, 0); })}),
      row("relu6", only(relu6)),
      row("hardsigmoid", only(hardsigmoid)),
      row("hardswish", only(hardswish)),
      row("gelu", only(gelu)),
      row("gelu_tanh", only(gelu_tanh)),
      row("silu", only(silu)),
      row("mish", only(mish)),
      row("softplus", {{"one", one(softplus, 1)}, {"two", one(softplus, 2)}},
          {fails<ValueError>("beta must be above 0, got 0", [] { return softplus(of({2}), 0); })}),
      row("log_sigmoid", only(log_sigmoid)),
      row("softsign", only(softsign)),
      row("glu", {{"last", one(glu, -1)}, {"first", one(glu, 0)}},
          {fails<ShapeError>("axis -1 of [2, 3] must have an even size",
                             [] {
                               return glu(of({2, 3}));
                             }),
           fails<ShapeError>("axis", [] { return glu(of({2}), 1); }),
           fails<ShapeError>("axis", [] { return glu(of({})); })}),
  };
}

}  // namespace capstan::testing
