// Defines cifar10() and cifar100(): 50,000 training and 10,000 test images of 32 x 32 coloured
// pixels in 10 or 100 classes (A. Krizhevsky, "Learning multiple layers of features from tiny
// images", 2009), from the "binary version" of https://www.cs.toronto.edu/~kriz/cifar.html.
//
// A file is a row of records without a header: the label in one byte (CIFAR-100: the coarse label,
// then the fine one), then 1024 bytes each of red, green and blue, row by row.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/split.h"

namespace capstan::data {

/// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, of `directory`. Inputs are
/// normalised by the means and deviations of the training pixels of each colour. Throws IoError,
/// naming the file, if one is missing, damaged, or has a label out of range.
ImageDataset cifar10(const std::string& directory, Split split = Split::train);

/// Which of the two labels of CIFAR-100 is the class.
enum class Cifar100Labels { fine, coarse };  // of 100, of 20

/// The same for train.bin or test.bin of CIFAR-100.
ImageDataset cifar100(const std::string& directory, Split split = Split::train,
                      Cifar100Labels labels = Cifar100Labels::fine);

}  // namespace capstan::data
