#include "autograd/upsample.h"

#include <cmath>

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/operands.h"
#include "autograd/views.h"
#include "autograd/windows.h"
#include "core/raise.h"

namespace capstan {

namespace {

constexpr const char* kName = "upsample";
constexpr int64_t kMost = int64_t{1} << 30;  // far below where sizes would overflow

/// What becomes of an axis: `size` elements, one for every numerator / denominator of the source.
struct Stretch {
  int64_t size;
  double numerator, denominator;
};

/// `count` elements of an axis, each from the place that place_of(i) names.
template <class Place>
Tensor taken(const Tensor& x, int axis, int64_t count, const Place& place_of) {
  std::vector<int64_t> places(count);
  for (int64_t i = 0; i < count; ++i) places[i] = place_of(i);
  const Tensor list = from_vector(places, {count});
  return index_select(x, axis, converted(list, {Dtype::int64, x.device()}));
}

/// One axis of x in another size.
Tensor stretched(const Tensor& x, int axis, const Stretch& to, Interpolation mode) {
  const int64_t last = x.size(axis) - 1;
  const auto clamped = [=](double position) {
    return std::clamp<int64_t>(static_cast<int64_t>(position), 0, last);
  };
  if (mode == Interpolation::nearest) {
    return taken(x, axis, to.size, [&](int64_t i) {
      return clamped(static_cast<double>(i) * to.numerator / to.denominator);
    });
  }
  const auto position = [&](int64_t i) {
    const double at = static_cast<double>(i);
    if (mode == Interpolation::bilinear) {
      return std::max(0.0, (at + 0.5) * to.numerator / to.denominator - 0.5);
    }
    return to.size > 1 ? at * static_cast<double>(last) / static_cast<double>(to.size - 1) : 0.0;
  };
  const auto below = [&](int64_t i) { return clamped(position(i)); };
  const auto above = [&](int64_t i) { return std::min(below(i) + 1, last); };
  std::vector<double> shares(to.size);  // of the element above
  for (int64_t i = 0; i < to.size; ++i) shares[i] = position(i) - static_cast<double>(below(i));
  Shape column = Dims::filled(x.rank(), 1);
  column[axis] = to.size;
  const Tensor share = converted(from_vector(shares, column), {x.dtype(), x.device()});
  return taken(x, axis, to.size, below) * (1 - share) + taken(x, axis, to.size, above) * share;
}

}  // namespace

Tensor upsample(const Tensor& x, int64_t height, int64_t width, Interpolation mode) {
  output_size(kName, x, {});  // checks that these are images with pixels
  if (height < 1 || height > kMost || width < 1 || width > kMost) {
    raise<ValueError>("[{}] sizes must be in [1, {}], got {} and {}", kName, kMost, height, width);
  }
  const auto to = [&](int axis, int64_t size) {
    return Stretch{size, static_cast<double>(x.size(axis)), static_cast<double>(size)};
  };
  return stretched(stretched(x, 2, to(2, height), mode), 3, to(3, width), mode);
}

Tensor upsample(const Tensor& x, double scale, Interpolation mode) {
  output_size(kName, x, {});
  if (!(scale > 0 && scale <= static_cast<double>(kMost))) {
    raise<ValueError>("[{}] scale must be above 0 and at most {}, got {}", kName, kMost, scale);
  }
  const auto to = [&](int axis) {
    const auto size = static_cast<int64_t>(static_cast<double>(x.size(axis)) * scale);
    if (size < 1) {
      raise<ShapeError>("[{}] a scale of {} leaves nothing of {}", kName, scale, x.shape());
    }
    return Stretch{size, 1, scale};
  };
  const Stretch height = to(2), width = to(3);
  return stretched(stretched(x, 2, height, mode), 3, width, mode);
}

}  // namespace capstan
