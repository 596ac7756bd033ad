// TensorDataset copies rows; ImageDataset looks every pixel up in a table of 256 floats, which is
// as fast as arithmetic and rounds the same on every machine.
#include "data/dataset.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"
#include "core/sha256.h"
#include "data/rows.h"

namespace capstan::data {
namespace {

/// `tensor` as dense host memory with at least one axis.
Tensor dense_rows(const char* operation, const char* what, const Tensor& tensor) {
  if (tensor.device().kind != Device::Kind::cpu) {
    raise<DeviceError>("[{}] {} must be on the cpu, got {}", operation, what, tensor.device());
  }
  if (tensor.rank() == 0)
    raise<ShapeError>("[{}] {} must have an axis of samples", operation, what);
  return tensor.is_contiguous() ? tensor : dense_copy(tensor);
}

void check_counts(const char* operation, int64_t inputs, int64_t labels) {
  if (inputs != labels) {
    raise<ShapeError>("[{}] every sample needs a label, got {} samples and {} labels", operation,
                      inputs, labels);
  }
}

}  // namespace

TensorDataset::TensorDataset(const Tensor& inputs, const Tensor& labels)
    : inputs_(dense_rows("TensorDataset", "inputs", inputs)),
      labels_(dense_rows("TensorDataset", "labels", labels)) {
  check_counts("TensorDataset", inputs.size(0), labels.size(0));
}

Batch TensorDataset::batch(std::span<const int64_t> indices) const {
  check_indices("TensorDataset", indices, size());
  return {gather_rows(inputs_, indices), gather_rows(labels_, indices)};
}

ImageDataset::ImageDataset(const Tensor& images, const Tensor& labels, int64_t classes,
                           Normalization normalization)
    : ImageDataset(images, labels, classes, std::span(&normalization, 1)) {}

ImageDataset::ImageDataset(const Tensor& images, const Tensor& labels, int64_t classes,
                           std::span<const Normalization> normalizations)
    : images_(dense_rows("ImageDataset", "images", images)),
      labels_(dense_rows("ImageDataset", "labels", labels)),
      classes_(classes) {
  if (images.dtype() != Dtype::uint8) wrong_dtype("ImageDataset", "uint8 images", images.dtype());
  if (labels.dtype() != Dtype::uint8) wrong_dtype("ImageDataset", "uint8 labels", labels.dtype());
  if ((images.rank() != 3 && images.rank() != 4) || labels.rank() != 1) {
    raise<ShapeError>(
        "[ImageDataset] images must be [N, height, width] or [N, channels, height, width], labels "
        "[N], got {} and {}",
        images.shape(), labels.shape());
  }
  check_counts("ImageDataset", images.size(0), labels.size(0));
  const auto* first = labels_.data<uint8_t>();
  const auto* last = first + labels_.numel();
  const auto* wrong = std::find_if(first, last, [&](int label) { return label >= classes; });
  if (wrong != last) {
    raise<ValueError>("[ImageDataset] labels must be in [0, {}), label {} is {}", classes,
                      wrong - first, *wrong);
  }
  const int64_t given = std::ssize(normalizations);
  if (given != 1 && given != channels()) {
    raise<ValueError>("[ImageDataset] {} channels need 1 or {} normalizations, got {}", channels(),
                      channels(), given);
  }
  for (int64_t channel = 0; channel < channels(); ++channel) {
    const auto [mean, deviation] = normalizations[static_cast<size_t>(given == 1 ? 0 : channel)];
    if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
      raise<ValueError>(
          "[ImageDataset] mean must be finite and deviation above 0, got mean {} and deviation {}",
          mean, deviation);
    }
    for (int pixel = 0; pixel < 256; ++pixel) {
      input_of_.push_back(static_cast<float>((pixel / 255.0 - mean) / deviation));
    }
  }
}

std::string ImageDataset::digest() const {
  Sha256 hash;
  for (const Tensor& tensor : {images_, labels_}) {
    hash.update(std::as_bytes(std::span(tensor.data<uint8_t>(), tensor.numel())));
  }
  return hash.hex();
}

Batch ImageDataset::batch(std::span<const int64_t> indices) const {
  check_indices("ImageDataset", indices, size());
  const int64_t count = std::ssize(indices), pixels = height() * width();
  Batch out{empty({count, channels(), height(), width()}), empty({count}, {.dtype = Dtype::int64})};
  if (count == 0) return out;
  const auto* images = images_.data<uint8_t>();
  const auto* labels = labels_.data<uint8_t>();
  auto* input = out.inputs.mutable_data<float>();
  auto* label = out.labels.mutable_data<int64_t>();
  for (int64_t index : indices) {
    for (int64_t channel = 0; channel < channels(); ++channel) {
      const uint8_t* plane = images + (index * channels() + channel) * pixels;
      const float* input_of = input_of_.data() + 256 * channel;
      input = std::transform(plane, plane + pixels, input, [&](uint8_t p) { return input_of[p]; });
    }
    *label++ = labels[index];
  }
  return out;
}

}  // namespace capstan::data
