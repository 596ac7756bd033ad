#include "data/transform.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"
#include "data/resize.h"

namespace capstan::data {
namespace {

constexpr uint64_t kTransform = 0x7472616e73666f72;  // "transfor": a stream apart from other uses
constexpr int kErasingTries = 10;

/// Uniform in [low, high].
double uniform(Generator& generator, double low, double high) {
  return low + (high - low) * static_cast<double>(generator.next() >> 11) * 0x1p-53;
}

bool chance(Generator& generator, double p) { return uniform(generator, 0, 1) < p; }

/// Uniform in 0, ..., most.
int64_t whole_number(Generator& generator, int64_t most) {
  return static_cast<int64_t>(generator.below(static_cast<uint64_t>(most) + 1));
}

void check_probability(const char* operation, double p) {
  if (!(p >= 0 && p <= 1)) raise<ValueError>("[{}] p must be in [0, 1], got {}", operation, p);
}

/// The images of a batch, to walk over.
struct Images {
  Images(const char* operation, const Batch& batch, std::span<Generator> generators) {
    const Tensor& inputs = batch.inputs;
    if (inputs.dtype() != Dtype::float32) wrong_dtype(operation, "float32 inputs", inputs.dtype());
    if (inputs.rank() != 4 || !inputs.is_contiguous()) {
      raise<ShapeError>("[{}] inputs must be dense [n, channels, height, width], got {}", operation,
                        inputs.shape());
    }
    if (std::ssize(generators) != inputs.size(0)) {
      raise<ValueError>("[{}] {} rows need as many generators, got {}", operation, inputs.size(0),
                        generators.size());
    }
    count = inputs.size(0), channels = inputs.size(1), height = inputs.size(2);
    width = inputs.size(3);
  }
  int64_t plane() const { return height * width; }
  int64_t image() const { return channels * plane(); }

  int64_t count, channels, height, width;
};

/// Crops of every image, each from the upper left corner that `corner` gives; what is outside the
/// image is 0.
template <class Corner>
void crop(Batch& batch, const Images& images, int64_t height, int64_t width, Corner corner) {
  const Tensor out = zeros({images.count, images.channels, height, width});
  const float* from = batch.inputs.data<float>();
  auto* to = out.mutable_data<float>();
  for (int64_t i = 0; i < images.count; ++i) {
    const auto [top, left] = corner(i);
    const int64_t first = std::max<int64_t>(-left, 0);
    const int64_t last = std::min(width, images.width - left);
    for (int64_t channel = 0; channel < images.channels; ++channel, from += images.plane()) {
      for (int64_t row = 0; row < height; ++row, to += width) {
        const int64_t source = row + top;
        if (source < 0 || source >= images.height || first >= last) continue;
        const float* begin = from + source * images.width + left;
        std::copy(begin + first, begin + last, to + first);
      }
    }
  }
  batch.inputs = out;
}

struct Corner {
  int64_t top, left;
};

void check_crop(const char* operation, int64_t height, int64_t width) {
  if (height < 1 || width < 1) {
    raise<ValueError>("[{}] height and width must be 1 or more, got {} and {}", operation, height,
                      width);
  }
}

void check_fits(const char* operation, const Images& images, int64_t padding, int64_t height,
                int64_t width) {
  if (images.height + 2 * padding < height || images.width + 2 * padding < width) {
    raise<ShapeError>("[{}] a crop of {} x {} needs images of that size, got {} x {}", operation,
                      height, width, images.height + 2 * padding, images.width + 2 * padding);
  }
}

/// Moves x away from `center` by `factor`, within [0, 1].
float stretched(float x, double center, double factor) {
  return static_cast<float>(std::clamp(center + factor * (x - center), 0.0, 1.0));
}

double luminance(const float* image, int64_t plane) {  // ITU-R BT.601
  return 0.299 * image[0] + 0.587 * image[plane] + 0.114 * image[2 * plane];
}

/// Of the distribution Gamma(shape, 1) (Marsaglia and Tsang: "A simple method for generating gamma
/// variables", 2000).
double gamma(Generator& generator, double shape) {
  if (shape < 1) {
    const double boost = std::pow(1 - uniform(generator, 0, 1), 1 / shape);
    return gamma(generator, shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const uint64_t word = generator.next();
    const double normal =
        unit_normal(static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32));
    const double v = std::pow(1 + c * normal, 3), u = 1 - uniform(generator, 0, 1);
    if (v > 0 && std::log(u) < normal * normal / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double beta(Generator& generator, double alpha) {
  const double a = gamma(generator, alpha), b = gamma(generator, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;  // both are 0 where a tiny alpha underflows
}

}  // namespace

Generator sample_generator(uint64_t seed, int64_t epoch, int64_t index, int64_t repeat) {
  return Generator(seed)
      .fork(kTransform)
      .fork(static_cast<uint64_t>(epoch))
      .fork(static_cast<uint64_t>(index))
      .fork(static_cast<uint64_t>(repeat));
}

Transform compose(std::vector<Transform> transforms) {
  return [transforms = std::move(transforms)](Batch& batch, std::span<Generator> generators) {
    for (const Transform& transform : transforms) transform(batch, generators);
  };
}

Transform normalize(std::vector<Normalization> normalizations) {
  for (const auto& [mean, deviation] : normalizations) {
    if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
      raise<ValueError>("[normalize] deviation must be above 0, got mean {} and deviation {}", mean,
                        deviation);
    }
  }
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("normalize", batch, generators);
    const int64_t given = std::ssize(normalizations);
    if (given != 1 && given != images.channels) {
      raise<ShapeError>("[normalize] {} normalizations do not fit images of {} channels", given,
                        images.channels);
    }
    auto* x = batch.inputs.mutable_data<float>();
    for (int64_t plane = 0; plane < images.count * images.channels; ++plane) {
      const auto [mean, deviation] = normalizations[static_cast<size_t>(plane % given)];
      for (float* end = x + images.plane(); x != end; ++x) {
        *x = static_cast<float>((*x - mean) / deviation);
      }
    }
  };
}

Transform resize_to(int64_t height, int64_t width) {
  check_crop("resize_to", height, width);
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("resize_to", batch, generators);
    batch.inputs = resize(batch.inputs, height, width);
  };
}

Transform center_crop(int64_t height, int64_t width) {
  check_crop("center_crop", height, width);
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("center_crop", batch, generators);
    check_fits("center_crop", images, 0, height, width);
    const Corner corner{(images.height - height) / 2, (images.width - width) / 2};
    crop(batch, images, height, width, [&](int64_t) { return corner; });
  };
}

Transform random_crop(int64_t height, int64_t width, int64_t padding) {
  check_crop("random_crop", height, width);
  if (padding < 0) raise<ValueError>("[random_crop] padding must be 0 or more, got {}", padding);
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("random_crop", batch, generators);
    check_fits("random_crop", images, padding, height, width);
    crop(batch, images, height, width, [&](int64_t i) {
      Generator& generator = generators[static_cast<size_t>(i)];
      const int64_t top = whole_number(generator, images.height + 2 * padding - height) - padding;
      const int64_t left = whole_number(generator, images.width + 2 * padding - width) - padding;
      return Corner{top, left};
    });
  };
}

Transform random_flip(double p) {
  check_probability("random_flip", p);
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("random_flip", batch, generators);
    auto* row = batch.inputs.mutable_data<float>();
    for (Generator& generator : generators) {
      const bool flip = chance(generator, p);
      for (float* end = row + images.image(); row != end; row += images.width) {
        if (flip) std::reverse(row, row + images.width);
      }
    }
  };
}

Transform random_erasing(ErasingOptions options) {
  check_probability("random_erasing", options.p);
  if (!(options.least_area > 0 && options.least_area <= options.most_area &&
        options.most_area <= 1 && options.least_ratio > 0 && options.least_ratio <= 1)) {
    raise<ValueError>(
        "[random_erasing] 0 < least_area <= most_area <= 1 and 0 < least_ratio <= 1 must hold, got "
        "{}, {} and {}",
        options.least_area, options.most_area, options.least_ratio);
  }
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("random_erasing", batch, generators);
    auto* image = batch.inputs.mutable_data<float>();
    for (Generator& generator : generators) {
      const bool erase = chance(generator, options.p);
      for (int tries = 0; erase && tries < kErasingTries; ++tries) {
        const double area = uniform(generator, options.least_area, options.most_area) *
                            static_cast<double>(images.plane());
        const double bound = std::log(options.least_ratio);
        const double ratio = std::exp(uniform(generator, bound, -bound));
        const auto height = static_cast<int64_t>(std::round(std::sqrt(area * ratio)));
        const auto width = static_cast<int64_t>(std::round(std::sqrt(area / ratio)));
        if (height > images.height || width > images.width) continue;
        const int64_t top = whole_number(generator, images.height - height);
        const int64_t left = whole_number(generator, images.width - width);
        for (int64_t channel = 0; channel < images.channels; ++channel) {
          for (int64_t row = top; row < top + height; ++row) {
            float* begin = image + channel * images.plane() + row * images.width + left;
            std::fill_n(begin, width, options.value);
          }
        }
        break;
      }
      image += images.image();
    }
  };
}

Transform color_jitter(JitterOptions options) {
  for (double strength : {options.brightness, options.contrast, options.saturation}) {
    if (!(strength >= 0 && strength <= 1)) {
      raise<ValueError>("[color_jitter] strengths must be in [0, 1], got {}", strength);
    }
  }
  return [=](Batch& batch, std::span<Generator> generators) {
    const Images images("color_jitter", batch, generators);
    const bool colored = images.channels == 3;
    if (options.saturation > 0 && !colored) {
      raise<ShapeError>("[color_jitter] saturation needs 3 channels, got {}", images.channels);
    }
    const int64_t plane = images.plane();
    auto* image = batch.inputs.mutable_data<float>();
    for (Generator& generator : generators) {
      const auto factor = [&](double x) { return uniform(generator, 1 - x, 1 + x); };
      const double brightness = factor(options.brightness), contrast = factor(options.contrast);
      const double saturation = factor(options.saturation);
      float* const end = image + images.image();
      for (float* x = image; x != end; ++x) *x = stretched(*x, 0, brightness);
      double mean = 0;  // of the grey image, as in torchvision
      if (colored) {
        for (int64_t i = 0; i < plane; ++i) mean += luminance(image + i, plane);
      } else {
        for (const float* x = image; x != end; ++x) mean += *x;
      }
      mean /= static_cast<double>(colored ? plane : images.image());
      for (float* x = image; x != end; ++x) *x = stretched(*x, mean, contrast);
      for (int64_t i = 0; colored && i < plane; ++i) {
        const double grey = luminance(image + i, plane);
        for (float* x = image + i; x < end; x += plane) *x = stretched(*x, grey, saturation);
      }
      image = end;
    }
  };
}

Transform mixup(const Dataset& others, int64_t classes, double alpha, Transform before) {
  if (classes < 1 || !(alpha > 0) || !std::isfinite(alpha) || others.size() < 1) {
    raise<ValueError>(
        "[mixup] classes and samples must be 1 or more and alpha above 0, got {}, {} and {}",
        classes, others.size(), alpha);
  }
  return [=, &others](Batch& batch, std::span<Generator> generators) {
    const Images images("mixup", batch, generators);
    std::vector<int64_t> partners;
    std::vector<double> shares;
    std::vector<Generator> theirs;
    for (Generator& generator : generators) {
      shares.push_back(beta(generator, alpha));
      partners.push_back(whole_number(generator, others.size() - 1));
      theirs.emplace_back(generator.next());
    }
    Batch other = others.batch(partners);
    if (before) before(other, theirs);
    if (other.inputs.shape() != batch.inputs.shape()) {
      raise<ShapeError>(
          "[mixup] samples of {} cannot be mixed with {}; pass `before` what comes "
          "before mixup",
          batch.inputs.shape(), other.inputs.shape());
    }
    const Tensor labels = zeros({images.count, classes});
    auto* x = batch.inputs.mutable_data<float>();
    auto* y = labels.mutable_data<float>();
    const float* theirs_x = other.inputs.data<float>();
    for (int64_t i = 0; i < images.count; ++i, y += classes) {
      const auto share = static_cast<float>(shares[static_cast<size_t>(i)]);
      for (const Batch* part : {&batch, &other}) {
        const int64_t label = part->labels.data<int64_t>()[i];
        if (label < 0 || label >= classes) {
          raise<ValueError>("[mixup] labels must be in [0, {}), got {}", classes, label);
        }
        y[label] += part == &batch ? share : 1 - share;
      }
      for (float* end = x + images.image(); x != end; ++x) {
        *x = share * *x + (1 - share) * *theirs_x++;
      }
    }
    batch.labels = labels;
  };
}

}  // namespace capstan::data
