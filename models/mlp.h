// Defines Mlp, a multilayer perceptron for small grey images.
#pragma once

#include "nn/chain.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace capstan::models {

/// Images [n, 1, 28, 28] to logits [n, 10]: 784-512-512-10 with ReLU, and dropout before each layer
/// but the first. 669,706 parameters.
struct Mlp : nn::Module {
  explicit Mlp(double dropout = 0) : drop(dropout) {}

  nn::Linear fc1{784, 512}, fc2{512, 512}, fc3{512, 10};
  nn::Dropout drop;
  CAPSTAN_MODULE(Mlp, fc1, fc2, fc3, drop)

  nn::Layers layers() {
    return {
        {"fc1", [this](const Tensor& images) { return relu(fc1(flatten(images, 1))); }, {&fc1}},
        {"fc2", [this](const Tensor& x) { return relu(fc2(drop(x))); }, {&fc2, &drop}},
        {"fc3", [this](const Tensor& x) { return fc3(drop(x)); }, {&fc3, &drop}},
    };
  }

  Tensor forward(const Tensor& images) { return nn::forward(layers(), images); }
};

}  // namespace capstan::models
