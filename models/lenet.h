// Defines LeNet, the convolutional network that started it all (LeCun, Bottou, Bengio, Haffner,
// "Gradient-based learning applied to document recognition", Proc. IEEE 1998), in the form that
// Caffe's examples made common: ReLU, max pooling, 20 and 50 channels.
#pragma once

#include "nn/chain.h"
#include "nn/convolution.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/pooling.h"

namespace capstan::models {

/// Images [n, 1, 28, 28] to logits [n, 10]; dropout before the last layer. 431,080 parameters.
struct LeNet : nn::Module {
  explicit LeNet(double dropout = 0) : drop(dropout) {}

  nn::Conv2d conv1{1, 20, 5}, conv2{20, 50, 5};
  nn::MaxPool2d pool{2};
  nn::Linear fc1{800, 500}, fc2{500, 10};
  nn::Dropout drop;
  CAPSTAN_MODULE(LeNet, conv1, conv2, pool, fc1, fc2, drop)

  nn::Layers layers() {
    return {
        {"conv1",
         [this](const Tensor& images) { return pool(relu(conv1(images))); },  // [n, 20, 12, 12]
         {&conv1, &pool}},
        {"conv2",
         [this](const Tensor& x) { return pool(relu(conv2(x))); },  // [n, 50, 4, 4]
         {&conv2, &pool}},
        {"fc1", [this](const Tensor& x) { return relu(fc1(flatten(x, 1))); }, {&fc1}},  // [n, 500]
        {"fc2", [this](const Tensor& x) { return fc2(drop(x)); }, {&fc2, &drop}},
    };
  }

  Tensor forward(const Tensor& images) { return nn::forward(layers(), images); }
};

}  // namespace capstan::models
