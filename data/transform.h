// Defines Transform, a change to a batch on its way from the data set, and the usual ones.
//
//   .transform = data::compose({data::random_crop(32, 32, 4), data::random_flip()})
//
// A transform may use random numbers. Each row has a generator of its own, which depends on (seed,
// epoch, index of the sample) alone, and on how often the epoch had that sample before: so the same
// numbers come on any number of ranks and threads, in batches of any size, and no two samples or
// epochs share any. Transforms that follow each other draw from it in turn.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/random.h"
#include "data/dataset.h"

namespace capstan::data {

/// Changes `batch`; what it does to row i depends on that row and generators[i] alone. Threads may
/// call it at once. Those of this header take dense float32 inputs [n, channels, height, width] on
/// the cpu (DtypeError, ShapeError).
using Transform = std::function<void(Batch& batch, std::span<Generator> generators)>;

/// The generator of a sample in an epoch, the `repeat`-th time that the epoch has it.
Generator sample_generator(uint64_t seed, int64_t epoch, int64_t index, int64_t repeat = 0);

/// One after the other.
Transform compose(std::vector<Transform> transforms);

/// (x - mean) / deviation, for each channel or one for all.
Transform normalize(std::vector<Normalization> normalizations);

/// All images in another size; see data/resize.h.
Transform resize_to(int64_t height, int64_t width);

/// The middle of each image; where height or width differ from it by an odd number, the upper or
/// left one. Throws ShapeError for images that are smaller.
Transform center_crop(int64_t height, int64_t width);

/// A piece from a random place of each image, after `padding` zeros were put around it.
Transform random_crop(int64_t height, int64_t width, int64_t padding = 0);

/// Left and right changed, with probability `p`.
Transform random_flip(double p = 0.5);

struct ErasingOptions {
  double p = 0.5;                              // probability
  double least_area = 0.02, most_area = 0.33;  // of the image's
  double least_ratio = 0.3;                    // of the rectangle's height to its width, or back
  float value = 0;
};

/// A rectangle of `value` somewhere (Zhong et al.: "Random erasing data augmentation", 2017). After
/// 10 rectangles that do not fit, none.
Transform random_erasing(ErasingOptions options = {});

struct JitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;  // each in [0, 1]
};

/// Brightness, contrast and saturation, in this order, times a factor in [1 - x, 1 + x] each, for
/// colours in [0, 1], to which the results are cut: so before normalize(). Saturation needs three
/// channels.
Transform color_jitter(JitterOptions options);

/// Each sample mixed with another one: x = l x + (1 - l) x', and so for the labels, which become
/// float32 [n, classes], as cross_entropy() takes them; l is of the distribution Beta(alpha, alpha)
/// (Zhang et al.: "mixup", 2018). The other one is drawn from all of `others`, which must outlive
/// this, not from the batch: so it does not depend on the number of ranks. It is changed by
/// `before` first, as the batch was.
Transform mixup(const Dataset& others, int64_t classes, double alpha, Transform before = {});

}  // namespace capstan::data
