// Defines what the tests of this folder share: parameters, and gradients given by hand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/elementwise.h"
#include "autograd/node.h"
#include "optim/optimizer.h"

namespace capstan::testing {

/// Numbers in [-2, 2) that float32 holds exactly, different for each seed.
inline Tensor some_values(const Shape& shape, uint32_t seed) {
  std::vector<double> values(numel(shape));
  uint64_t state = seed * 2654435761u + 12345;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(state >> 44) / (1 << 18) - 2;
  }
  return from_vector(values, shape);
}

/// A leaf with the elements of `values`.
inline Tensor parameter_of(const Tensor& values, Dtype dtype = Dtype::float64) {
  return require_grad(dense_copy(cast(values, dtype)));
}
inline Tensor parameter(const std::vector<double>& values, Dtype dtype = Dtype::float64) {
  return parameter_of(from_vector(values, {static_cast<int64_t>(values.size())}), dtype);
}

inline void give_grad(const Tensor& parameter, const Tensor& grad) {
  zero_grad(parameter);
  accumulator(parameter).set_grad(cast(grad, parameter.dtype()));
}
inline void give_grad(const Tensor& parameter, double value) {
  give_grad(parameter, full(parameter.shape(), value, {.dtype = parameter.dtype()}));
}

/// A copy, as a file would give it back.
inline std::map<std::string, Tensor> saved(const NamedTensors& state) {
  std::map<std::string, Tensor> copy;
  for (const auto& [name, tensor] : state) copy[name] = dense_copy(tensor);
  return copy;
}

}  // namespace capstan::testing
