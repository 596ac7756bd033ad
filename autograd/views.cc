#include "autograd/views.h"

#include "autograd/record.h"
#include "autograd/reduce.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// The gradient of a part of a tensor: zero but for the part.
Tensor scatter_into(const Tensor& grad, const Shape& shape, const Layout& part) {
  Tensor whole = zeros(shape, {grad.dtype(), grad.device()});
  copy_elements(grad, view_of(whole, part));
  return whole;
}

/// slice and select: `part` maps any layout of x's shape to the part's.
template <class Part>
Tensor part_of(const char* operation, const Tensor& x, const Part& part) {
  return record(operation, view_of(x, part(x.layout())), inputs(x),
                [shape = x.shape(), part](const Tensor& grad) {
                  return gradients(scatter_into(grad, shape, part(Layout::dense(shape))));
                });
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape to = resolve_shape("reshape", shape, x.numel());
  const std::optional<Layout> layout = x.layout().viewed(to);
  const Tensor out = layout ? view_of(x, *layout) : view_of(dense_copy(x), Layout::dense(to));
  return record("reshape", out, inputs(x),
                [from = x.shape()](const Tensor& grad) { return gradients(reshape(grad, from)); });
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
      "transpose", view_of(x, x.layout().transposed(axis_a, axis_b)), inputs(x),
      [axis_a, axis_b](const Tensor& grad) { return gradients(transpose(grad, axis_a, axis_b)); });
}

Tensor permute(const Tensor& x, const Dims& order) {
  return record("permute", view_of(x, x.layout().permuted(order)), inputs(x),
                [order](const Tensor& grad) {
                  Dims inverse = order;
                  for (int i = 0; i < order.rank(); ++i) {
                    inverse[normalize_axis("permute", order[i], order.rank())] = i;
                  }
                  return gradients(permute(grad, inverse));
                });
}

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  return part_of("slice", x, [=](const Layout& l) { return l.sliced(axis, start, stop, step); });
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  return part_of("select", x, [=](const Layout& l) { return l.selected(axis, index); });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  return record("expand", view_of(x, x.layout().expanded(shape)), inputs(x),
                [from = x.shape()](const Tensor& grad) { return gradients(sum_to(grad, from)); });
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  return record("squeeze", view_of(x, x.layout().squeezed(axis)), inputs(x),
                [axis](const Tensor& grad) { return gradients(unsqueeze(grad, axis)); });
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  return record("unsqueeze", view_of(x, x.layout().unsqueezed(axis)), inputs(x),
                [axis](const Tensor& grad) { return gradients(squeeze(grad, axis)); });
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor clone(const Tensor& x) {
  return record("clone", dense_copy(x), inputs(x),
                [](const Tensor& grad) { return gradients(Tensor(grad)); });
}

}  // namespace capstan
