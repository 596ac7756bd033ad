// Defines compare_with_pytorch(), which holds a layer against its results and gradients in
// tests/golden/modules.safetensors, or another file of make_nn_golden.py.
#pragma once

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "nn/state.h"
#include "tests/golden/golden.h"

namespace capstan::nn {

/// The part of `tensors` under `prefix`, without it.
inline std::map<std::string, Tensor> under(const std::map<std::string, Tensor>& tensors,
                                           const std::string& prefix) {
  std::map<std::string, Tensor> part;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = tensor;
  }
  return part;
}

/// `forward(net, inputs)` in training, all gradients, the buffers after it, and evaluation.
template <class Net, class Forward>
void compare_with_pytorch(const Net& model, const std::string& name, const Forward& forward,
                          const std::string& file = "modules") {
  const auto golden = under(testing::load_golden(file), name + "/");
  CAPTURE(name);
  REQUIRE(golden.contains("out"));
  for (const Dtype dtype : {Dtype::float64, Dtype::float32}) {
    CAPTURE(to_string(dtype));
    const double tolerance = dtype == Dtype::float64 ? 1e-12 : 1e-5;
    Net net = model.clone();
    net.to(Dtype::float64);
    load_state_dict(net, under(golden, "weights/"));
    net.to(dtype);
    std::vector<Tensor> inputs;
    for (const auto& [_, input] : under(golden, "in")) {
      const bool floating = is_floating(input.dtype());
      inputs.push_back(floating ? require_grad(dense_copy(cast(input, dtype))) : input);
    }
    const Tensor out = forward(net, inputs);
    CHECK(testing::distance(out, golden.at("out")) <= tolerance);
    backward(out, {.seed = cast(golden.at("upstream"), dtype)});
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_floating(inputs[i].dtype())) continue;
      CHECK(testing::distance(inputs[i].grad(), golden.at("grad" + std::to_string(i))) <=
            tolerance);
    }
    for (const auto& [key, parameter] : net.parameters()) {
      CAPTURE(key);
      CHECK(testing::distance(parameter.grad(), golden.at("grads/" + key)) <= tolerance);
    }
    for (const auto& [key, buffer] : net.buffers()) {
      CAPTURE(key);
      CHECK(testing::distance(buffer, golden.at("after/" + key)) <= tolerance);
    }
    net.eval();
    CHECK(testing::distance(forward(net, inputs), golden.at("evaluated")) <= tolerance);
  }
}

/// The same for a layer of one tensor.
template <class Net>
void compare_with_pytorch(const Net& model, const std::string& name) {
  compare_with_pytorch(model, name, [](Net& net, const auto& x) { return net(x[0]); });
}

}  // namespace capstan::nn
