#include "autograd/pooling.h"

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "autograd/windows.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// grad [n, c, oh, ow] at the positions in the planes of `shape` that were chosen.
Tensor pool_grad(const char* operation, const Tensor& grad, const Tensor& chosen, Shape shape) {
  const Tensor out = empty(shape, {grad.dtype(), grad.device()});
  backend(out).max_pool2d_grad(contiguous(detach(grad)), chosen, out);
  return record(operation, out, inputs(grad),
                [chosen = Saved(chosen)](const Tensor& g) {  // [n, c, h, w]
                  const Tensor at = chosen.get();
                  const Shape planes{g.shape()[0], g.shape()[1], g.shape()[2] * g.shape()[3]};
                  const Shape places{at.shape()[0], at.shape()[1], at.shape()[2] * at.shape()[3]};
                  const Tensor index = reshape(cast(at, Dtype::int64), places);
                  return gradients(reshape(gather(reshape(g, planes), 2, index), at.shape()));
                });
}

Tensor max_pool(const char* operation, const Tensor& x, const Window2d& window) {
  const auto [height, width] = output_size(operation, x, window);
  check_pooling(operation, window);
  const Shape shape{x.shape()[0], x.shape()[1], height, width};
  Tensor out = empty(shape, {x.dtype(), x.device()});
  Tensor chosen = empty(shape, {Dtype::int32, x.device()});
  backend(out).max_pool2d(contiguous(detach(x)), window, out, chosen);
  return record(operation, out, inputs(x),
                [operation, shape = x.shape(), chosen = Saved(chosen)](const Tensor& grad) {
                  return gradients(pool_grad(operation, grad, chosen.get(), shape));
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

Tensor avg_pool(const char* operation, const Tensor& x, const Window2d& window) {
  const auto [height, width] = output_size(operation, x, window);
  check_pooling(operation, window);
  const Dims around{0, 0, window.padding[0], window.padding[1]};
  const bool padded = window.padding[0] > 0 || window.padding[1] > 0;
  const Tensor rows = window_sums(padded ? pad(x, around, around) : x, 2, window.kernel[0],
                                  window.stride[0], height);
  const Tensor sums = window_sums(rows, 3, window.kernel[1], window.stride[1], width);
  return sums / static_cast<double>(window.kernel[0] * window.kernel[1]);
}

void check_adaptive(const char* operation, const Tensor& x, int64_t height, int64_t width) {
  check_pooled_sizes(operation, height, width);
  output_size(operation, x, {});  // checks that there are pixels
}

/// The first element of part i of `count` that cover an axis evenly, and the one after its last;
/// they may overlap by one.
std::pair<int64_t, int64_t> part(int64_t i, int64_t count, int64_t size) {
  return {i * size / count, ((i + 1) * size + count - 1) / count};
}

/// The means of the parts of an axis.
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
    const auto [begin, end] = part(i, count, size);
    means.push_back(mean(slice(x, axis, begin, end), {axis}, true));
  }
  return cat(means, axis);
}

Tensor adaptive_avg_pool(const char* operation, const Tensor& x, int64_t height, int64_t width) {
  check_adaptive(operation, x, height, width);
  return part_means(part_means(x, 2, height), 3, width);
}

/// The parts of an axis side by side, all as long as the longest: the others repeat their last
/// element, which changes no maximum.
Tensor equal_parts(const Tensor& x, int axis, int64_t count) {
  const int64_t size = x.size(axis);
  if (size % count == 0) return x;
  int64_t longest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto [begin, end] = part(i, count, size);
    longest = std::max(longest, end - begin);
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    const auto [begin, end] = part(i, count, size);
    for (int64_t j = 0; j < longest; ++j) places.push_back(std::min(begin + j, end - 1));
  }
  const Tensor list = from_vector(places, {count * longest});
  return index_select(x, axis, converted(list, {Dtype::int64, x.device()}));
}

Tensor adaptive_max_pool(const char* operation, const Tensor& x, int64_t height, int64_t width) {
  check_adaptive(operation, x, height, width);
  const Tensor parts = equal_parts(equal_parts(x, 2, height), 3, width);
  const int64_t rows = parts.size(2) / height, columns = parts.size(3) / width;
  return max_pool(operation, parts, {.kernel = {rows, columns}, .stride = {rows, columns}});
}

/// pool(operation, image, arguments...) of lines as images of height 1.
template <class Pool, class... Arguments>
Tensor along_line(const char* operation, const Tensor& x, const Pool& pool,
                  const Arguments&... arguments) {
  if (x.rank() != 3) {
    raise<ShapeError>("[{}] takes lines [n, channels, length], got {}", operation, x.shape());
  }
  return squeeze(pool(operation, unsqueeze(x, 2), arguments...), 2);
}

Window2d flat(const Window1d& window) {
  return {
      .kernel = {1, window.kernel}, .stride = {1, window.stride}, .padding = {0, window.padding}};
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Window2d& window) {
  return max_pool("max_pool2d", x, window);
}
Tensor avg_pool2d(const Tensor& x, const Window2d& window) {
  return avg_pool("avg_pool2d", x, window);
}
Tensor adaptive_max_pool2d(const Tensor& x, int64_t height, int64_t width) {
  return adaptive_max_pool("adaptive_max_pool2d", x, height, width);
}
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width) {
  return adaptive_avg_pool("adaptive_avg_pool2d", x, height, width);
}

Tensor max_pool1d(const Tensor& x, const Window1d& window) {
  return along_line("max_pool1d", x, max_pool, flat(window));
}
Tensor avg_pool1d(const Tensor& x, const Window1d& window) {
  return along_line("avg_pool1d", x, avg_pool, flat(window));
}
Tensor adaptive_max_pool1d(const Tensor& x, int64_t length) {
  return along_line("adaptive_max_pool1d", x, adaptive_max_pool, 1, length);
}
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t length) {
  return along_line("adaptive_avg_pool1d", x, adaptive_avg_pool, 1, length);
}

}  // namespace capstan
