// Defines Dataset, what the loader reads, and two data sets that live in memory.
//
// A data set makes whole batches, not single samples: one virtual call and one allocation a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace capstan::data {

/// Some samples: row i of `inputs` belongs to row i of `labels`. It may have no rows.
struct Batch {
  Tensor inputs;
  Tensor labels;

  int64_t size() const { return labels.size(0); }
};

/// A fixed list of samples.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The samples at `indices`, in that order; an index may occur twice. Threads may call this at
  /// once. Throws ValueError for an index outside [0, size()).
  virtual Batch batch(std::span<const int64_t> indices) const = 0;
};

/// Rows of two tensors of any dtype: inputs [N, ...] and labels [N, ...].
class TensorDataset : public Dataset {
 public:
  /// Throws ShapeError unless both have the same first size, DeviceError unless on the cpu.
  TensorDataset(const Tensor& inputs, const Tensor& labels);

  int64_t size() const override { return inputs_.size(0); }
  Batch batch(std::span<const int64_t> indices) const override;

 private:
  Tensor inputs_, labels_;
};

/// How a pixel p in [0, 255] becomes an input: (p / 255 - mean) / deviation.
struct Normalization {
  double mean = 0;
  double deviation = 1;
};

/// Images of one size with a class each. Kept as bytes, normalised when a batch is made.
class ImageDataset : public Dataset {
 public:
  /// `images` uint8 [N, height, width] (grey) or [N, channels, height, width]; `labels` uint8 [N],
  /// each in [0, classes). Throws DtypeError, ShapeError or ValueError (which names the first label
  /// out of range) for anything else.
  ImageDataset(const Tensor& images, const Tensor& labels, int64_t classes,
               Normalization normalization = {});
  /// With a normalization for each channel, or one for all. Throws ValueError for another number.
  ImageDataset(const Tensor& images, const Tensor& labels, int64_t classes,
               std::span<const Normalization> normalizations);

  int64_t size() const override { return images_.size(0); }
  int64_t channels() const { return images_.rank() == 3 ? 1 : images_.size(1); }
  int64_t height() const { return images_.size(-2); }
  int64_t width() const { return images_.size(-1); }
  int64_t classes() const { return classes_; }
  /// SHA-256 over images and labels: ranks compare it before they train together.
  std::string digest() const;

  /// Inputs float32 [n, channels, height, width], labels int64 [n].
  Batch batch(std::span<const int64_t> indices) const override;

 private:
  Tensor images_, labels_;
  int64_t classes_;
  std::vector<float>
      input_of_;  // the normalised value of each of the 256 pixels, channel by channel
};

}  // namespace capstan::data
