// Defines LeNet, the convolutional network that started it all (LeCun, Bottou, Bengio, Haffner,
// "Gradient-based learning applied to document recognition", Proc. IEEE 1998), in the form that
// Caffe's examples made common: ReLU, max pooling, 20 and 50 channels.
#pragma once

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

  Tensor forward(const Tensor& images) {
    Tensor x = pool(relu(conv1(images)));  // [n, 20, 12, 12]
    x = pool(relu(conv2(x)));              // [n, 50, 4, 4]
    x = relu(fc1(flatten(x, 1)));          // [n, 500]
    return fc2(drop(x));
  }
};

}  // namespace capstan::models
