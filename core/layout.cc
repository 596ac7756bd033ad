#include "core/layout.h"

#include "core/raise.h"

namespace capstan {

bool Layout::is_contiguous() const {
  int64_t step = 1;
  bool dense = true;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    dense &= shape[axis] == 1 || strides[axis] == step;
    step *= shape[axis];
  }
  return dense || step == 0;  // without elements, any strides do
}

Layout Layout::permuted(const Dims& order) const {
  Layout out{.shape = {}, .strides = {}, .offset = offset};
  unsigned seen = 0;
  for (int64_t from : order) {
    const int axis = normalize_axis("permute", from, shape.rank());
    seen |= 1u << axis;
    out.shape.push_back(shape[axis]);
    out.strides.push_back(strides[axis]);
  }
  if (order.rank() != shape.rank() || seen != (1u << shape.rank()) - 1) {
    raise<ShapeError>("[permute] order {} must name each of the {} axes once", order, shape.rank());
  }
  return out;
}

Layout Layout::transposed(int64_t axis_a, int64_t axis_b) const {
  const int a = normalize_axis("transpose", axis_a, shape.rank());
  const int b = normalize_axis("transpose", axis_b, shape.rank());
  Layout out = *this;
  std::swap(out.shape[a], out.shape[b]);
  std::swap(out.strides[a], out.strides[b]);
  return out;
}

Layout Layout::sliced(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  const int a = normalize_axis("slice", axis, shape.rank());
  if (step < 1) {
    raise<ValueError>("[slice] step must be at least 1, got {}: flip() walks backwards", step);
  }
  const int64_t size = shape[a];
  step = std::clamp<int64_t>(step, 1, std::max<int64_t>(size, 1));  // longer ones might overflow
  const auto clamp = [size](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
  };
  start = clamp(start);
  stop = std::max(start, clamp(stop));
  Layout out = *this;
  out.shape[a] = (stop - start + step - 1) / step;
  out.strides[a] *= step;
  out.offset += start * strides[a];
  return out;
}

Layout Layout::flipped(int64_t axis) const {
  const int a = normalize_axis("flip", axis, shape.rank());
  Layout out = *this;
  if (shape[a] > 1) {
    out.offset += (shape[a] - 1) * strides[a];
    out.strides[a] = -strides[a];
  }
  return out;
}

Layout Layout::diagonal(int64_t axis_a, int64_t axis_b) const {
  const int a = normalize_axis("diagonal", axis_a, shape.rank());
  const int b = normalize_axis("diagonal", axis_b, shape.rank());
  if (a == b)
    raise<ShapeError>("[diagonal] needs two different axes, got {} and {}", axis_a, axis_b);
  Layout out = *this;
  for (const int axis : {std::max(a, b), std::min(a, b)}) {
    out.shape.erase(axis);
    out.strides.erase(axis);
  }
  out.shape.push_back(std::min(shape[a], shape[b]));
  out.strides.push_back(strides[a] + strides[b]);
  return out;
}

Layout Layout::selected(int64_t axis, int64_t index) const {
  const int a = normalize_axis("select", axis, shape.rank());
  if (index < -shape[a] || index >= shape[a]) {
    raise<ShapeError>("[select] index {} is out of range for axis {} of {}", index, axis, shape);
  }
  Layout out = *this;
  out.offset += (index < 0 ? index + shape[a] : index) * strides[a];
  out.shape.erase(a);
  out.strides.erase(a);
  return out;
}

Layout Layout::expanded(const Shape& to) const {
  const int shift = to.rank() - shape.rank();
  Layout out{.shape = to, .strides = Dims::filled(to.rank(), 0), .offset = offset};
  bool fits = shift >= 0 && std::all_of(to.begin(), to.end(), [](int64_t n) { return n >= 0; });
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    if (shape[axis] == to[axis + shift]) {
      out.strides[axis + shift] = strides[axis];
    } else {
      fits = shape[axis] == 1;
    }
  }
  if (!fits) {
    raise<ShapeError>("[expand] {} does not expand to {}: only axes of size 1 repeat", shape, to);
  }
  return out;
}

Layout Layout::unsqueezed(int64_t axis) const {
  const int a = normalize_axis("unsqueeze", axis, shape.rank() + 1);
  Layout out = *this;
  out.shape.insert(a, 1);
  out.strides.insert(a, 0);
  return out;
}

Layout Layout::squeezed(int64_t axis) const {
  const int a = normalize_axis("squeeze", axis, shape.rank());
  if (shape[a] != 1) {
    raise<ShapeError>("[squeeze] axis {} of {} must have size 1", axis, shape);
  }
  Layout out = *this;
  out.shape.erase(a);
  out.strides.erase(a);
  return out;
}

std::optional<Layout> Layout::viewed(const Shape& to) const {
  Layout out{.shape = to, .strides = dense_strides(to), .offset = offset};
  if (is_contiguous()) return out;
  // Walk both shapes from the right in groups of equal element count. Within a group the old axes
  // must be dense among themselves; the new axes then divide the group's stride.
  int old_axis = shape.rank() - 1, new_axis = to.rank() - 1;
  while (old_axis >= 0 || new_axis >= 0) {
    while (old_axis >= 0 && shape[old_axis] == 1) --old_axis;
    while (new_axis >= 0 && to[new_axis] == 1) --new_axis;
    if (old_axis < 0 || new_axis < 0) break;
    int64_t step = strides[old_axis];
    int64_t old_count = shape[old_axis], new_count = to[new_axis];
    out.strides[new_axis] = step;
    while (old_count != new_count) {
      if (old_count < new_count) {
        const int next = old_axis - 1;
        if (shape[next] != 1 && strides[next] != strides[old_axis] * shape[old_axis]) return {};
        if (shape[next] == 1) {
          // A size-1 axis carries no step of its own: look through it.
          Layout without = *this;
          without.shape.erase(next);
          without.strides.erase(next);
          return without.viewed(to);
        }
        old_axis = next;
        old_count *= shape[old_axis];
      } else {
        --new_axis;
        out.strides[new_axis] = step * new_count;
        new_count *= to[new_axis];
      }
    }
    --old_axis;
    --new_axis;
  }
  return out;
}

Shape resolve_shape(const char* operation, const Shape& shape, int64_t count) {
  Shape out = shape;
  int unknown = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == -1 && unknown < 0) {
      unknown = axis;
      out[axis] = 1;
    } else if (shape[axis] < 0) {
      raise<ShapeError>("[{}] sizes must not be negative (one may be -1), got {}", operation,
                        shape);
    }
  }
  const int64_t known = numel(out);
  if (unknown >= 0 && known > 0 && count % known == 0) {
    out[unknown] = count / known;
  } else if (unknown >= 0 || known != count) {
    raise<ShapeError>("[{}] shape {} cannot hold {} elements", operation, shape, count);
  }
  return out;
}

}  // namespace capstan
