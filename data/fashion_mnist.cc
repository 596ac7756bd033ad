#include "data/fashion_mnist.h"

#include "core/raise.h"
#include "data/idx.h"

namespace capstan::data {

ImageDataset fashion_mnist(const std::string& directory, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string advice = fmt::format("Debian's package dataset-fashion-mnist brings it, in {}",
                                         kFashionMnistDirectory);
  const std::string images_path = find_idx(directory, prefix + "-images-idx3-ubyte", advice);
  const std::string labels_path = find_idx(directory, prefix + "-labels-idx1-ubyte", advice);
  const Tensor images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.rank() != 3 || images.size(1) != 28 || images.size(2) != 28) {
    raise<IoError>("[fashion_mnist] {}: expected images of shape [N, 28, 28], found {}",
                   images_path, images.shape());
  }
  try {
    return ImageDataset(images, labels, 10, {.mean = 0.2860, .deviation = 0.3530});
  } catch (const Error& error) {
    raise<IoError>("[fashion_mnist] {} with {}: {}", images_path, labels_path, error.what());
  }
}

}  // namespace capstan::data
