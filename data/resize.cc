// The two axes are resized one after the other.
#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/raise.h"

namespace capstan::data {
namespace {

/// One pixel of the result: the pixels `begin`, begin + 1, ... of the source, and their weights.
struct Tap {
  int64_t begin;
  std::vector<float> weights;
};

std::vector<Tap> taps_of(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double radius = std::max(scale, 1.0);
  std::vector<Tap> taps;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(center - radius + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(center + radius + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) {
      const double distance = std::abs((static_cast<double>(j) + 0.5 - center) / radius);
      weights.push_back(std::max(1 - distance, 0.0));
      sum += weights.back();
    }
    Tap tap{begin, {}};
    for (double weight : weights) tap.weights.push_back(static_cast<float>(weight / sum));
    taps.push_back(std::move(tap));
  }
  return taps;
}

/// Resizes the middle axis of `from`, [outer, taps' source, inner].
void resize_axis(const float* from, int64_t outer, int64_t size, int64_t inner,
                 const std::vector<Tap>& taps, float* to) {
  for (int64_t o = 0; o < outer; ++o, from += size * inner) {
    for (const Tap& tap : taps) {
      std::fill_n(to, inner, 0.0f);
      const float* row = from + tap.begin * inner;
      for (float weight : tap.weights) {
        for (int64_t i = 0; i < inner; ++i) to[i] += weight * *row++;
      }
      to += inner;
    }
  }
}

}  // namespace

Tensor resize(const Tensor& images, int64_t height, int64_t width) {
  if (images.dtype() != Dtype::float32) wrong_dtype("resize", "float32", images.dtype());
  if (images.rank() < 2 || images.size(-1) == 0 || images.size(-2) == 0) {
    raise<ShapeError>("[resize] images must be [..., height, width] with pixels, got {}",
                      images.shape());
  }
  if (height < 1 || width < 1) {
    raise<ValueError>("[resize] height and width must be 1 or more, got {} and {}", height, width);
  }
  const int64_t h = images.size(-2), w = images.size(-1), planes = images.numel() / (h * w);
  Shape shape = images.shape();
  shape[shape.rank() - 1] = width;
  const Tensor wide = empty(shape);
  shape[shape.rank() - 2] = height;
  const Tensor out = empty(shape);
  const Tensor dense = images.is_contiguous() ? images : dense_copy(images);
  resize_axis(dense.data<float>(), planes * h, w, 1, taps_of(w, width), wide.mutable_data<float>());
  resize_axis(wide.data<float>(), planes, h, width, taps_of(h, height), out.mutable_data<float>());
  return out;
}

}  // namespace capstan::data
