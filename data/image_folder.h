// Defines ImageFolder: a folder with a folder of PNG and JPEG images for each class.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace capstan::data {

struct ImageFolderOptions {
  int64_t height = 224, width = 224;  // to which every image is resized
  /// For red, green and blue, or one for all.
  std::vector<Normalization> normalizations = {{.mean = 0.485, .deviation = 0.229},
                                               {.mean = 0.456, .deviation = 0.224},
                                               {.mean = 0.406, .deviation = 0.225}};
};

/// The images of FOLDER/CLASS/NAME.png, .jpg and .jpeg. Classes are numbered in the order of their
/// names, samples go by class and name. Only names are kept: an image is decoded when a batch is
/// made, by the loader's threads.
class ImageFolder : public Dataset {
 public:
  /// Throws IoError for a folder that cannot be read, has no classes, or a class without images;
  /// ValueError for options out of range.
  explicit ImageFolder(const std::string& folder, ImageFolderOptions options = {});

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<std::string>& classes() const { return classes_; }
  const std::string& path(int64_t index) const { return samples_.at(index).path; }
  /// Inputs float32 [n, 3, height, width], labels int64 [n]. Throws IoError as read_image() does.
  Batch batch(std::span<const int64_t> indices) const override;

 private:
  struct Sample {
    std::string path;
    int64_t label;
  };

  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<Sample> samples_;
};

}  // namespace capstan::data
