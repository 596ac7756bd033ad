#include "autograd/sort.h"

#include "autograd/elementwise.h"
#include "autograd/indexing.h"
#include "autograd/node.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// Positions of the first `count` elements in order along an axis.
Tensor order(const Tensor& x, int axis, int64_t count, bool descending) {
  const Tensor lines = contiguous(move_axis(detach(x), axis, -1));  // [..., n]
  Shape shape = lines.shape();
  const int64_t length = shape.back();
  shape[x.rank() - 1] = count;
  const int64_t rows = length == 0 ? 0 : lines.numel() / length;
  const Tensor out = empty(shape, {Dtype::int64, x.device()});
  if (rows > 0) {
    const Tensor positions = view_of(out, Layout::dense({rows, count}));
    backend(out).order(reshape(lines, {rows, length}), descending, positions);
  }
  return contiguous(move_axis(out, -1, axis));
}

}  // namespace

Sorted sort(const Tensor& x, int64_t axis, bool descending) {
  const int a = normalize_axis("sort", axis, x.rank());
  const Tensor indices = order(x, a, x.shape()[a], descending);
  return {gather(x, a, indices), indices};
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  const int a = normalize_axis("argsort", axis, x.rank());
  return order(x, a, x.shape()[a], descending);
}

Sorted topk(const Tensor& x, int64_t count, int64_t axis, bool largest) {
  const int a = normalize_axis("topk", axis, x.rank());
  if (count < 0 || count > x.shape()[a]) {
    raise<ValueError>("[topk] axis {} of {} does not have {} elements", axis, x.shape(), count);
  }
  const Tensor indices = order(x, a, count, largest);
  return {gather(x, a, indices), indices};
}

Unique unique(const Tensor& x, std::optional<int64_t> axis) {
  if (x.device().kind == Device::Kind::meta) {
    raise<DeviceError>("[unique] the shape depends on values, and meta has none");
  }
  const int a = axis ? normalize_axis("unique", *axis, x.rank()) : 0;
  const int64_t count = axis ? x.shape()[a] : x.numel();
  const int64_t width = axis ? x.numel() / std::max<int64_t>(1, count) : 1;
  const Tensor front = axis ? move_axis(detach(x), a, 0) : reshape(detach(x), {count});
  const Tensor rows = reshape(front, {count, width});
  const TensorOptions position{Dtype::int64, x.device()};
  // By the last column first: sorting keeps the order of equals, so the first column decides.
  Tensor places = arange(count, position);
  for (int64_t column = width - 1; column >= 0 && count > 0; --column) {
    const Tensor keys = take_rows(select(rows, 1, column), places);
    places = take_rows(places, argsort(keys, 0));
  }
  const Shape all = axis ? Shape{count} : x.shape();
  if (count == 0) return {detach(clone(front)), zeros(all, position), zeros({0}, position)};

  const Tensor sorted = take_rows(rows, places);
  // True where a new value begins.
  const Tensor changes =
      any(not_equal(slice(sorted, 0, 1, count), slice(sorted, 0, 0, count - 1)), {1});
  const Tensor is_first = cat({ones({1}, {Dtype::boolean, x.device()}), changes});
  const Tensor starts = select(nonzero(is_first), 1, 0);
  const Tensor ends =
      cat({slice(starts, 0, 1, starts.numel()), full({1}, static_cast<double>(count), position)});
  const Tensor number = cumsum(is_first, 0) - 1;
  const Tensor inverse = scatter(zeros({count}, position), 0, places, number);
  Shape kept = front.shape();
  kept[0] = starts.numel();
  const Tensor values = reshape(take_rows(sorted, starts), kept);
  return {axis ? contiguous(move_axis(values, 0, a)) : values, reshape(inverse, all),
          ends - starts};
}

}  // namespace capstan
