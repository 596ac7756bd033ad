// Defines ImageOptions, what a user may ask of train_image.
#pragma once

#include "data/fashion_mnist.h"
#include "models/train_options.h"

namespace capstan::models {

struct ImageOptions : TrainOptions {
  static constexpr const char* kAbout =
      "Trains a classifier on Fashion-MNIST, alone or on many ranks:\n"
      "  train_image --model lenet --epochs 5\n"
      "  mpirun -np 4 train_image --model lenet --epochs 5";

  std::string model = "lenet";  // or "mlp"
  std::string data = data::kFashionMnistDirectory;
};

/// As for TrainOptions.
void check(const ImageOptions& options);
void list(ImageOptions& options, OptionReader& reader);

}  // namespace capstan::models
