// Defines the checks that every operation of the table goes through, each against the reference
// files or against finite differences. Read: Checks, then check_case() from top to bottom.
#pragma once

#include <array>
#include <cstdio>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/allocator.h"
#include "core/costs.h"
#include "tests/autograd/operation.h"
#include "tests/golden/golden.h"

namespace capstan::testing {

/// The columns of the table. The counts say how many comparisons each check made.
enum Column {
  values,
  float32,
  half,
  gradients,
  finite_differences,
  second,
  size_one,
  no_elements,
  strided,
  special,
  meta,
  errors,
  kColumns
};
inline constexpr std::array<const char*, kColumns> kColumnNames = {
    "values",   "float32", "16 bits", "gradients", "gradcheck", "second",
    "size one", "empty",   "strided", "NaN, inf",  "meta",      "errors"};

struct Checks {
  std::array<int, kColumns> counts = {};
  std::vector<std::string> faults;

  void expect(Column column, bool good, const std::string& what) {
    ++counts[column];
    if (!good) faults.push_back(std::string(kColumnNames[column]) + ": " + what);
  }
};

/// The first elements of `upstream` in the form of `like`.
inline Tensor upstream_for(const Tensor& like, const Tensor& upstream) {
  return cast(reshape(slice(upstream, 0, 0, like.numel()), like.shape()), like.dtype());
}

/// Makes the floating inputs leaves that require gradients.
inline Tensors leaves(const Tensors& inputs) {
  for (const Tensor& input : inputs) {
    if (is_floating(input.dtype())) require_grad(input);
  }
  return inputs;
}

inline Tensors detached(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& tensor : tensors) out.push_back(detach(tensor));
  return out;
}

/// The same elements in other places: with the axes reversed in memory, with a gap of garbage after
/// each element, or dense behind others.
enum class Place { reversed, gaps, behind };

inline Tensor moved(const Tensor& x, Place place) {
  if (place == Place::behind) {
    const Tensor longer = full({x.numel() + 3}, 1, {x.dtype(), x.device()});
    const Tensor out = detach(reshape(slice(longer, 0, 3, longer.numel()), x.shape()));
    copy_elements(x, out);
    return out;
  }
  if (place == Place::reversed && x.rank() > 1) {
    Dims order;
    for (int axis = x.rank() - 1; axis >= 0; --axis) order.push_back(axis);
    return detach(permute(dense_copy(permute(x, order)), order));
  }
  Shape gaps = x.shape();
  gaps.push_back(3);
  const Tensor wide = full(gaps, is_floating(x.dtype()) ? -1e30 : 1, {x.dtype(), x.device()});
  const Tensor out = detach(select(wide, -1, 1));
  copy_elements(x, out);
  return out;
}

/// Compares result and gradients of `f` at `inputs` with the reference.
inline void compare(Checks& checks, Column value_column, Column gradient_column, const Function& f,
                    const Tensors& inputs, const GoldenCase& golden, const Tensor& seed,
                    double tolerance, const std::string& what) {
  const Tensor out = f(leaves(inputs));
  const double error = distance(out, golden.out);
  checks.expect(value_column, error <= tolerance, what + " is off by " + std::to_string(error));
  if (golden.gradients.empty()) return;
  backward(out, {.seed = seed});
  for (const auto& [i, expected] : golden.gradients) {
    const double slope_error = inputs[i].has_grad() ? distance(inputs[i].grad(), expected) : 1;
    checks.expect(gradient_column, slope_error <= tolerance,
                  what + " gradient " + std::to_string(i) + " is off by " +
                      std::to_string(slope_error) + " or missing");
  }
}

/// Compares result and gradients in a 16-bit dtype with those of the same numbers in float32. An
/// operation made of others rounds after each, so some roundings are allowed.
inline void compare_in_half(Checks& checks, Dtype dtype, const Function& f, const Tensors& inputs,
                            const Tensor& upstream, const std::string& what) {
  const double tolerance = 12 * (dtype == Dtype::float16 ? 0x1p-11 : 0x1p-8);
  const auto in = [](const Tensors& numbers, Dtype wanted) {
    Tensors out;
    for (const Tensor& x : numbers) {
      out.push_back(dense_copy(is_floating(x.dtype()) ? cast(x, wanted) : x));
    }
    return leaves(out);
  };
  const Tensors narrow = in(inputs, dtype), wide = in(detached(narrow), Dtype::float32);
  const Tensor out = f(narrow), expected = f(wide);
  const bool kept = expected.dtype() != Dtype::float32 || out.dtype() == dtype;
  checks.expect(half, kept && distance(out, expected) <= tolerance,
                what + " in " + to_string(dtype) + " is " + to_string(out) + ", in float32 " +
                    to_string(expected));
  if (!expected.requires_grad()) return;
  const Tensor seed = cast(upstream_for(expected, upstream), dtype);
  backward(out, {.seed = cast(seed, out.dtype())});
  backward(expected, {.seed = cast(seed, expected.dtype())});
  for (size_t i = 0; i < wide.size(); ++i) {
    if (!wide[i].requires_grad() || !wide[i].has_grad()) continue;
    checks.expect(half,
                  narrow[i].grad().dtype() == dtype &&
                      distance(narrow[i].grad(), wide[i].grad()) <= tolerance,
                  what + " in " + to_string(dtype) + " has the gradient " +
                      to_string(narrow[i].grad()) + ", in float32 " + to_string(wide[i].grad()));
  }
}

/// Runs all that one case of the reference file can show.
inline void check_case(Checks& checks, const std::string& name, const Function& f,
                       const GoldenCase& golden, const Tensor& upstream, bool on_meta,
                       bool has_second) {
  const double in_double = 1e-12, in_single = 4e-6;
  const std::string what = name + "/" + golden.data;
  const auto each = [&](const auto& change) {
    Tensors changed;
    for (const Tensor& input : golden.inputs) changed.push_back(change(input));
    return changed;
  };
  const Tensor seed = upstream_for(golden.out, upstream);

  compare(checks, values, gradients, f, each(dense_copy), golden, seed, in_double, what);
  const auto single = [](const Tensor& x) {
    return is_floating(x.dtype()) ? dense_copy(cast(x, Dtype::float32)) : dense_copy(x);
  };
  const Tensor single_out = f(each(single));  // cast.float64, say, gives float64 from float32
  compare(checks, float32, float32, f, each(single), golden, cast(seed, single_out.dtype()),
          in_single, what + " in float32");

  for (const Place place : {Place::reversed, Place::gaps, Place::behind}) {
    const auto move = [=](const Tensor& x) { return moved(x, place); };
    compare(checks, strided, strided, f, each(move), golden, move(seed), in_double,
            what + " of strided inputs");
  }

  const bool smooth = golden.data != "ties" && golden.data != "special" && golden.data != "large" &&
                      golden.data != "tiny" && golden.data != "no_samples";
  if (smooth) {
    compare_in_half(checks, Dtype::bfloat16, f, golden.inputs, upstream, what);
    compare_in_half(checks, Dtype::float16, f, golden.inputs, upstream, what);
  }

  if (on_meta) {
    const auto planned = [](const Tensor& x) {
      return empty(x.shape(), {x.dtype(), Device::meta()});
    };
    const Tensors plan = leaves(each(planned));
    CountCosts costs;
    const Tensor out = f(plan);
    const bool is_view = std::any_of(plan.begin(), plan.end(), [&](const Tensor& input) {
      return &input.storage() == &out.storage();
    });
    checks.expect(meta, is_view || out.numel() == 0 || costs.bytes_written() > 0,
                  what + " is made on meta by a kernel that counts nothing");
    checks.expect(meta, out.shape() == golden.out.shape() && out.dtype() == golden.out.dtype(),
                  what + " has another shape or dtype on meta");
    if (!golden.gradients.empty()) backward(out, {.seed = planned(golden.out)});
    for (const auto& [i, expected] : golden.gradients) {
      checks.expect(meta, plan[i].has_grad() && plan[i].grad().shape() == expected.shape(),
                    what + " has no gradient on meta");
    }
  }

  const auto& inputs = golden.inputs;
  checks.counts[special] += golden.data == "special";
  checks.counts[size_one] += std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) {
    return std::find(x.shape().begin(), x.shape().end(), 1) != x.shape().end() || x.rank() == 0;
  });
  checks.counts[no_elements] +=
      golden.out.numel() == 0 ||
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.numel() == 0; });

  if (golden.gradients.empty() || !smooth) return;
  try {
    gradcheck(f, leaves(each(dense_copy)));
    checks.expect(finite_differences, true, "");
  } catch (const GradientError& error) {
    checks.expect(finite_differences, false, what + ": " + error.what());
  }
  // (The mean of no elements is NaN, and so is all that follows from it.)
  if (!has_second || !all(isfinite(golden.out)).item<bool>()) return;
  try {
    gradgradcheck(f, leaves(each(dense_copy)));
    checks.expect(second, true, "");
  } catch (const GradientError& error) {
    checks.expect(second, false, what + ": " + error.what());
  }
}

/// Runs all checks of one operation and prints its row.
inline Checks check_operation(const Operation& operation, const GoldenOperations& golden) {
  Checks checks;
  for (const auto& [variant, f] : operation.variants) {
    const std::string name = operation.name + (variant.empty() ? "" : "." + variant);
    const auto found = golden.cases.find(name);
    checks.expect(values, found != golden.cases.end(), name + " is not in the reference file");
    if (found == golden.cases.end()) continue;
    for (const GoldenCase& golden_case : found->second) {
      const int64_t held = memory_stats(Device::cpu()).current;
      try {
        check_case(checks, name, f, golden_case, golden.upstream, operation.on_meta,
                   operation.has_second);
      } catch (const std::exception& error) {
        checks.faults.push_back(name + "/" + golden_case.data + " threw: " + error.what());
      }
      if (memory_stats(Device::cpu()).current != held) {
        checks.faults.push_back(name + "/" + golden_case.data + " leaves tensors behind");
      }
    }
  }
  for (const Failure& failure : operation.failures) {
    const std::string problem = failure.problem(operation.name);
    checks.expect(errors, problem.empty(), "an error " + problem);
  }
  std::printf("%-14s", operation.name.c_str());
  for (int count : checks.counts) count ? std::printf("%10d", count) : std::printf("%10s", "-");
  std::printf("%s\n", checks.faults.empty() ? "" : "  FAILED");
  return checks;
}

}  // namespace capstan::testing
