// Defines small sets of images for the tests of training.
#pragma once

#include <filesystem>
#include <iostream>

#include "core/random.h"
#include "data/fashion_mnist.h"

namespace capstan::testing {

/// Ten classes that a model can tell apart: noise, and a bright square whose place is the class.
inline data::ImageDataset squares(int64_t count, uint64_t seed = 1) {
  Generator generator(seed);
  const Tensor images = empty({count, 28, 28}, {.dtype = Dtype::uint8});
  const Tensor labels = empty({count}, {.dtype = Dtype::uint8});
  auto* pixel = images.mutable_data<uint8_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int64_t>(generator.below(10));
    labels.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(label);
    for (int64_t y = 0; y < 28; ++y) {
      for (int64_t x = 0; x < 28; ++x) {
        const bool bright = y / 9 == label / 4 && x / 7 == label % 4;
        *pixel++ = static_cast<uint8_t>(generator.below(100) + (bright ? 100 : 0));
      }
    }
  }
  return data::ImageDataset(images, labels, 10, {.mean = 0.2, .deviation = 0.15});
}

/// The first `count` images of a data set.
class Head : public data::Dataset {
 public:
  Head(const data::Dataset& dataset, int64_t count) : dataset_(dataset), count_(count) {}
  int64_t size() const override { return count_; }
  data::Batch batch(std::span<const int64_t> indices) const override {
    return dataset_.batch(indices);
  }

 private:
  const data::Dataset& dataset_;
  int64_t count_;
};

/// Fashion-MNIST's training images where Debian's package has put them, else squares().
inline const data::ImageDataset& images() {
  static const data::ImageDataset set = [] {
    if (std::filesystem::exists(data::kFashionMnistDirectory)) return data::fashion_mnist();
    std::cout << "Fashion-MNIST is not installed: these tests train on squares() instead\n";
    return squares(1000);
  }();
  return set;
}

}  // namespace capstan::testing
