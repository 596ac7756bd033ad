// Defines fashion_mnist(): 60,000 training and 10,000 test images of 28 x 28 grey pixels in ten
// classes of clothes (Xiao, Rasul, Vollgraf: "Fashion-MNIST", arXiv 1708.07747).
#pragma once

#include <string>

#include "data/dataset.h"
#include "data/split.h"

namespace capstan::data {

/// Where Debian's package dataset-fashion-mnist puts the files.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// Reads one half of the set from the four IDX files of `directory`, plain or gzip (MNIST's own
/// have the same names). Inputs are normalised by the mean and deviation of the training pixels.
/// Throws IoError, naming the file, if one is missing, damaged or does not fit the other.
ImageDataset fashion_mnist(const std::string& directory = kFashionMnistDirectory,
                           Split split = Split::train);

}  // namespace capstan::data
