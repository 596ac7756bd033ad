// TensorDataset copies rows; ImageDataset looks every pixel up in a table of 256 floats, which is
// as fast as arithmetic and rounds the same on every machine.
#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/raise.h"
#include "core/sha256.h"

namespace capstan::data {
namespace {

void check_indices(const char* operation, std::span<const int64_t> indices, int64_t size) {
  for (int64_t index : indices) {
    if (index < 0 || index >= size) {
      raise<ValueError>("[{}] index {} is out of range for {} samples", operation, index, size);
    }
  }
}

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

/// The rows of `from` at `indices`, as they are.
Tensor gather_rows(const Tensor& from, std::span<const int64_t> indices) {
  Shape shape = from.shape();
  shape[0] = std::ssize(indices);
  const Tensor out = empty(shape, {.dtype = from.dtype()});
  if (out.numel() == 0) return out;
  const int64_t row_bytes = out.bytes() / out.size(0);
  const auto* source = static_cast<const std::byte*>(from.address());
  auto* target = static_cast<std::byte*>(out.address());
  for (int64_t index : indices) {
    std::memcpy(target, source + index * row_bytes, static_cast<size_t>(row_bytes));
    target += row_bytes;
  }
  return out;
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
    : images_(dense_rows("ImageDataset", "images", images)),
      labels_(dense_rows("ImageDataset", "labels", labels)),
      classes_(classes) {
  if (images.dtype() != Dtype::uint8) wrong_dtype("ImageDataset", "uint8 images", images.dtype());
  if (labels.dtype() != Dtype::uint8) wrong_dtype("ImageDataset", "uint8 labels", labels.dtype());
  if (images.rank() != 3 || labels.rank() != 1) {
    raise<ShapeError>("[ImageDataset] images must be [N, height, width], labels [N], got {} and {}",
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
  const auto [mean, deviation] = normalization;
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
    raise<ValueError>(
        "[ImageDataset] mean must be finite and deviation above 0, got mean {} and deviation {}",
        mean, deviation);
  }
  for (int pixel = 0; pixel < 256; ++pixel) {
    input_of_.push_back(static_cast<float>((pixel / 255.0 - mean) / deviation));
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
  Batch out{empty({count, 1, height(), width()}), empty({count}, {.dtype = Dtype::int64})};
  if (count == 0) return out;
  const auto* images = images_.data<uint8_t>();
  const auto* labels = labels_.data<uint8_t>();
  auto* input = out.inputs.mutable_data<float>();
  auto* label = out.labels.mutable_data<int64_t>();
  for (int64_t index : indices) {
    const uint8_t* image = images + index * pixels;
    input = std::transform(image, image + pixels, input, [&](uint8_t p) { return input_of_[p]; });
    *label++ = labels[index];
  }
  return out;
}

}  // namespace capstan::data
