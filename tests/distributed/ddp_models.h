// Defines the models that the tests of Ddp share.
#pragma once

#include <vector>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "nn/linear.h"

namespace capstan::distributed {

/// Two layers, of odd sizes.
struct Net : nn::Module {
  nn::Linear in{7, 13}, out{13, 5};
  CAPSTAN_MODULE(Net, in, out)
  Tensor forward(const Tensor& x) { return out(relu(in(x))); }
};

/// A model of bare parameters; its loss is the sum of all their elements.
struct Bare : nn::Module {
  std::vector<nn::Parameter> parts;
  CAPSTAN_MODULE(Bare, parts)
  Bare(int count, int64_t elements, Dtype dtype = Dtype::float32) {
    for (int i = 0; i < count; ++i) parts.emplace_back(ones({elements}, {.dtype = dtype}));
  }
  Tensor forward() {
    Tensor total = sum(parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) total = total + sum(parts[i]);
    return total;
  }
};

/// All parameters in the model's order.
inline std::vector<float> all_weights(nn::Module& model) {
  std::vector<float> values;
  for (const auto& [_, p] : model.parameters()) {
    for (float v : p.to_vector<float>()) values.push_back(v);
  }
  return values;
}

}  // namespace capstan::distributed
