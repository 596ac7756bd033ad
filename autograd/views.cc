#include "autograd/views.h"

#include "autograd/parts.h"
#include "autograd/reduce.h"
#include "core/raise.h"

namespace capstan {

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape to = resolve_shape("reshape", shape, x.numel());
  const std::optional<Layout> layout = x.layout().viewed(to);
  const Tensor out = layout ? view_on_tape(x, *layout) : reshaped(dense_copy(x), to);
  return record("reshape", out, inputs(x),
                [from = x.shape()](const Tensor& grad) { return gradients(reshape(grad, from)); });
}

Tensor view(const Tensor& x, const Shape& shape) {
  if (!x.layout().viewed(resolve_shape("view", shape, x.numel()))) {
    raise<ShapeError>("[view] the strides {} of {} cannot express {} without a copy: reshape() it",
                      x.strides(), x.shape(), shape);
  }
  return reshape(x, shape);
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int from = normalize_axis("flatten", first, x.rank());
  const int to = normalize_axis("flatten", last, x.rank());
  if (from > to) {
    raise<ShapeError>("[flatten] the first axis must not come after the last, got {} and {} for {}",
                      first, last, x.shape());
  }
  Shape shape;
  int64_t merged = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis >= from && axis <= to) merged *= x.shape()[axis];
    if (axis < from || axis > to) shape.push_back(x.shape()[axis]);
    if (axis == to) shape.push_back(merged);
  }
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b) {
  return record(
      "transpose", view_on_tape(x, x.layout().transposed(axis_a, axis_b)), inputs(x),
      [axis_a, axis_b](const Tensor& grad) { return gradients(transpose(grad, axis_a, axis_b)); });
}

Tensor permute(const Tensor& x, const Dims& order) {
  return record("permute", view_on_tape(x, x.layout().permuted(order)), inputs(x),
                [order](const Tensor& grad) {
                  Dims inverse = order;
                  for (int i = 0; i < order.rank(); ++i) {
                    inverse[normalize_axis("permute", order[i], order.rank())] = i;
                  }
                  return gradients(permute(grad, inverse));
                });
}

Tensor move_axis(const Tensor& x, int64_t from, int64_t to) {
  const int source = normalize_axis("move_axis", from, x.rank());
  const int target = normalize_axis("move_axis", to, x.rank());
  Dims order;
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  order.erase(source);
  order.insert(target, source);
  return permute(x, order);
}

Tensor flip(const Tensor& x, const Dims& axes) {
  const AxisSet flipped("flip", axes, x.rank());
  Layout layout = x.layout();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (flipped[axis]) layout = layout.flipped(axis);
  }
  return record("flip", view_on_tape(x, layout), inputs(x),
                [axes](const Tensor& grad) { return gradients(flip(grad, axes)); });
}

Tensor diagonal(const Tensor& x, int64_t axis_a, int64_t axis_b) {
  return part_of("diagonal", x, [=](const Layout& l) { return l.diagonal(axis_a, axis_b); });
}

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  return part_of("slice", x, [=](const Layout& l) { return l.sliced(axis, start, stop, step); });
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  return part_of("select", x, [=](const Layout& l) { return l.selected(axis, index); });
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  if (size < 1) raise<ValueError>("[split] pieces must have at least 1 index, got {}", size);
  const int64_t length = x.shape()[normalize_axis("split", axis, x.rank())];
  std::vector<Tensor> pieces;
  for (int64_t begin = 0; begin < std::max<int64_t>(length, 1); begin += size) {
    pieces.push_back(slice(x, axis, begin, begin + std::min(size, length - begin)));
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  const int64_t length = x.shape()[normalize_axis("split", axis, x.rank())];
  std::vector<Tensor> pieces;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > length - begin) {
      raise<ShapeError>("[split] sizes must not be negative and add up to {}, got {} after {}",
                        length, size, begin);
    }
    pieces.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  if (begin != length) {
    raise<ShapeError>("[split] sizes must add up to the {} indices of axis {}, got {}", length,
                      axis, begin);
  }
  return pieces;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis) {
  if (count < 1) raise<ValueError>("[chunk] needs at least 1 piece, got {}", count);
  const int64_t length = x.shape()[normalize_axis("chunk", axis, x.rank())];
  return split(x, std::max<int64_t>(1, length / count + (length % count != 0)), axis);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  return record("expand", view_on_tape(x, x.layout().expanded(shape)), inputs(x),
                [from = x.shape()](const Tensor& grad) { return gradients(sum_to(grad, from)); });
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  return record("squeeze", view_on_tape(x, x.layout().squeezed(axis)), inputs(x),
                [axis](const Tensor& grad) { return gradients(unsqueeze(grad, axis)); });
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  return record("unsqueeze", view_on_tape(x, x.layout().unsqueezed(axis)), inputs(x),
                [axis](const Tensor& grad) { return gradients(squeeze(grad, axis)); });
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor clone(const Tensor& x) {
  return record("clone", dense_copy(x), inputs(x),
                [](const Tensor& grad) { return gradients(Tensor(grad)); });
}

}  // namespace capstan
