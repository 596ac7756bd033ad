// Defines how tests read the reference files of this folder and compare with them. What the files
// hold, and how they were made, is in the make_*golden.py beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/safetensors.h"

namespace capstan::testing {

inline std::map<std::string, Tensor> load_golden(const std::string& family) {
  return load_safetensors("tests/golden/" + family + ".safetensors").tensors;
}

/// One operation on one set of data, all in float64.
struct GoldenCase {
  std::string data;  // "plain", "one", "empty", "ties", "special", ...
  std::vector<Tensor> inputs;
  Tensor out;
  std::map<size_t, Tensor> gradients;  // by input; of sum(out * upstream)
};

/// The cases of one file: "<operation>[.<variant>]" to its cases.
struct GoldenOperations {
  Tensor upstream;
  std::map<std::string, std::vector<GoldenCase>> cases;
};

inline GoldenOperations load_golden_operations(const std::string& family) {
  GoldenOperations golden;
  for (const auto& [key, tensor] : load_golden(family)) {  // "<operation>/<data>/<role>", sorted
    if (key == "upstream") {
      golden.upstream = tensor;
      continue;
    }
    const size_t first = key.find('/'), last = key.rfind('/');
    const std::string data = key.substr(first + 1, last - first - 1), role = key.substr(last + 1);
    std::vector<GoldenCase>& cases = golden.cases[key.substr(0, first)];
    if (cases.empty() || cases.back().data != data) cases.push_back({data, {}, {}, {}});
    GoldenCase& golden_case = cases.back();
    if (role == "out") golden_case.out = tensor;
    if (role.starts_with("in")) golden_case.inputs.push_back(tensor);  // in0, in1, ... in order
    if (role.starts_with("grad")) golden_case.gradients[std::stoi(role.substr(4))] = tensor;
  }
  return golden;
}

/// The largest difference of two elements, relative to the expected one where that is above 1.
/// Infinite if shapes differ, or NaN or infinities stand at other places.
inline double distance(const Tensor& got, const Tensor& expected) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (got.shape() != expected.shape()) return kInfinite;
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    worst = std::max(worst, std::isfinite(difference) ? difference : kInfinite);
  }
  return worst;
}

}  // namespace capstan::testing
