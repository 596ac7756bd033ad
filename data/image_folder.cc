#include "data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "core/raise.h"
#include "data/image_file.h"
#include "data/resize.h"
#include "data/rows.h"

namespace capstan::data {
namespace {

namespace fs = std::filesystem;

/// What is in a folder, in the order of names: the disk's order differs between hosts.
std::vector<fs::path> sorted_entries(const fs::path& folder) {
  try {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
    std::sort(entries.begin(), entries.end());
    return entries;
  } catch (const fs::filesystem_error& error) {
    raise<IoError>("[ImageFolder] {}: cannot be read: {}", folder.string(), error.code().message());
  }
}

bool is_image(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg";
}

Tensor to_float(const Tensor& bytes) {
  const Tensor out = empty(bytes.shape());
  copy_elements(bytes, out);
  return out;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, ImageFolderOptions options)
    : options_(std::move(options)) {
  auto& normalizations = options_.normalizations;
  if (normalizations.size() == 1) normalizations.resize(3, normalizations[0]);
  const bool sound = std::all_of(normalizations.begin(), normalizations.end(), [](const auto& n) {
    return std::isfinite(n.mean) && std::isfinite(n.deviation) && n.deviation > 0;
  });
  if (normalizations.size() != 3 || !sound || options_.height < 1 || options_.width < 1) {
    raise<ValueError>(
        "[ImageFolder] height and width must be 1 or more, with 1 or 3 normalizations of deviation "
        "above 0, got {}, {} and {}",
        options_.height, options_.width, normalizations.size());
  }
  for (const fs::path& entry : sorted_entries(folder)) {
    if (!fs::is_directory(entry)) continue;
    const size_t before = samples_.size();
    for (const fs::path& image : sorted_entries(entry)) {
      if (is_image(image)) samples_.push_back({image.string(), std::ssize(classes_)});
    }
    if (samples_.size() == before) {
      raise<IoError>("[ImageFolder] {}: expected .png, .jpg or .jpeg files, found none",
                     entry.string());
    }
    classes_.push_back(entry.filename().string());
  }
  if (classes_.empty()) {
    raise<IoError>("[ImageFolder] {}: expected a folder for each class, found none", folder);
  }
}

Batch ImageFolder::batch(std::span<const int64_t> indices) const {
  check_indices("ImageFolder", indices, size());
  const int64_t pixels = options_.height * options_.width;
  Batch out{empty({std::ssize(indices), 3, options_.height, options_.width}),
            empty({std::ssize(indices)}, {.dtype = Dtype::int64})};
  auto* input = out.inputs.mutable_data<float>();
  auto* label = out.labels.mutable_data<int64_t>();
  for (int64_t index : indices) {
    const Sample& sample = samples_[static_cast<size_t>(index)];
    const Tensor image = resize(to_float(read_image(sample.path)), options_.height, options_.width);
    const float* plane = image.data<float>();
    for (const Normalization& n : options_.normalizations) {
      input = std::transform(plane, plane + pixels, input, [&](float pixel) {
        return static_cast<float>((pixel / 255.0 - n.mean) / n.deviation);
      });
      plane += pixels;
    }
    *label++ = sample.label;
  }
  return out;
}

}  // namespace capstan::data
