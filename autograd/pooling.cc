#include "autograd/pooling.h"

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "autograd/windows.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// grad [n, c, oh, ow] at the positions in the planes of `shape` that were chosen.
Tensor pool_grad(const Tensor& grad, const Tensor& chosen, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).max_pool2d_grad(contiguous(detach(grad)), chosen, out);
  return record("max_pool2d", out, inputs(grad),
                [chosen = Saved(chosen)](const Tensor& g) {  // [n, c, h, w]
                  const Tensor at = chosen.get();
                  const Shape planes{g.shape()[0], g.shape()[1], g.shape()[2] * g.shape()[3]};
                  const Shape places{at.shape()[0], at.shape()[1], at.shape()[2] * at.shape()[3]};
                  const Tensor index = reshape(cast(at, Dtype::int64), places);
                  return gradients(reshape(gather(reshape(g, planes), 2, index), at.shape()));
                });
}

/// Sums of windows along one axis: the window's elements one after the other, each for all windows.
Tensor window_sums(const Tensor& x, int axis, int64_t kernel, int64_t stride, int64_t count) {
  const auto element = [&](int64_t i) {
    return slice(x, axis, i, i + (count - 1) * stride + 1, stride);
  };
  Tensor total = element(0);
  for (int64_t i = 1; i < kernel; ++i) total = total + element(i);
  return total;
}

/// Means of `count` parts of an axis that cover it evenly and may overlap by one element.
Tensor part_means(const Tensor& x, int axis, int64_t count) {
  const int64_t size = x.size(axis);
  if (size % count == 0) {  // equal parts, side by side
    Shape parts = x.shape();
    parts[axis] = count;
    parts.insert(axis + 1, size / count);
    return mean(reshape(x, parts), {axis + 1});
  }
  std::vector<Tensor> means;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    means.push_back(mean(slice(x, axis, begin, end), {axis}, true));
  }
  return cat(means, axis);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Window2d& window) {
  const auto [height, width] = output_size("max_pool2d", x, window);
  check_pooling("max_pool2d", window);
  const Shape shape{x.shape()[0], x.shape()[1], height, width};
  Tensor out = empty(shape, {x.dtype(), x.device()});
  Tensor chosen = empty(shape, {Dtype::int32, x.device()});
  backend(out).max_pool2d(contiguous(detach(x)), window, out, chosen);
  return record("max_pool2d", out, inputs(x),
                [shape = x.shape(), chosen = Saved(chosen)](const Tensor& grad) {
                  return gradients(pool_grad(grad, chosen.get(), shape));
                });
}

Tensor avg_pool2d(const Tensor& x, const Window2d& window) {
  const auto [height, width] = output_size("avg_pool2d", x, window);
  check_pooling("avg_pool2d", window);
  const Dims around{0, 0, window.padding[0], window.padding[1]};
  const bool padded = window.padding[0] > 0 || window.padding[1] > 0;
  const Tensor rows = window_sums(padded ? pad(x, around, around) : x, 2, window.kernel[0],
                                  window.stride[0], height);
  const Tensor sums = window_sums(rows, 3, window.kernel[1], window.stride[1], width);
  return sums / static_cast<double>(window.kernel[0] * window.kernel[1]);
}

Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width) {
  if (height < 1 || width < 1) {
    raise<ValueError>("[adaptive_avg_pool2d] output sizes must be at least 1, got {} and {}",
                      height, width);
  }
  output_size("adaptive_avg_pool2d", x, {});  // checks that there are pixels
  return part_means(part_means(x, 2, height), 3, width);
}

}  // namespace capstan
