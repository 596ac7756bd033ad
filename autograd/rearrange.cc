#include "autograd/rearrange.h"

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan {

namespace {

constexpr int64_t kMostPadding = int64_t{1} << 40;  // far below where sizes would overflow

/// The shape of the tensors' joint along `axis`, after the checks.
Shape joint_shape(const std::vector<Tensor>& tensors, int axis) {
  Shape shape = tensors[0].shape();
  for (size_t i = 1; i < tensors.size(); ++i) {
    Shape other = tensors[i].shape();
    if (other.rank() == shape.rank()) {
      shape[axis] += std::exchange(other[axis], shape[axis]);
      other[axis] = shape[axis];
    }
    if (other != shape) {
      raise<ShapeError>("[cat] tensors must agree but for axis {}: number {} is {}, the first {}",
                        axis, i, tensors[i].shape(), tensors[0].shape());
    }
    check_same_device("cat", tensors[0].device(), tensors[i].device());
  }
  return shape;
}

/// Keeps the elements of matrices where `keep` compares row + diagonal with column as true.
Tensor triangle(const char* operation, const Tensor& x, int64_t diagonal,
                Tensor (*keep)(const Tensor&, const Tensor&)) {
  if (x.rank() < 2) raise<ShapeError>("[{}] needs two axes, got {}", operation, x.shape());
  const TensorOptions index{Dtype::int64, x.device()};
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));
  const Tensor rows = arange(x.size(-2), index) + static_cast<double>(diagonal);
  const Tensor kept = keep(reshape(rows, {-1, 1}), arange(x.size(-1), index));
  return where(kept, x, zeros({}, {x.dtype(), x.device()}));
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t axis) {
  if (tensors.empty()) raise<ShapeError>("[cat] needs at least one tensor");
  const int along = normalize_axis("cat", axis, tensors[0].rank());
  const Shape shape = joint_shape(tensors, along);
  Dtype dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = promote(dtype, tensor.dtype());

  const Tensor out = empty(shape, {dtype, tensors[0].device()});
  std::vector<const Tensor*> inputs;
  std::vector<std::pair<int64_t, Dtype>> parts;  // where each ends, and what it was
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t end = begin + tensor.shape()[along];
    copy_elements(tensor, view_of(out, out.layout().sliced(along, begin, end)));
    inputs.push_back(&tensor);
    parts.emplace_back(end, tensor.dtype());
    begin = end;
  }
  return record("cat", out, inputs, [along, parts](const Tensor& grad) {
    std::vector<Tensor> grads;
    int64_t begin = 0;
    for (const auto& [end, dtype] : parts) {
      grads.push_back(cast(slice(grad, along, begin, end), dtype));
      begin = end;
    }
    return grads;
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  if (tensors.empty()) raise<ShapeError>("[stack] needs at least one tensor");
  const int along = normalize_axis("stack", axis, tensors[0].rank() + 1);
  std::vector<Tensor> layers;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors[0].shape()) {
      raise<ShapeError>("[stack] tensors must have one shape, got {} and {}", tensors[0].shape(),
                        tensor.shape());
    }
    layers.push_back(unsqueeze(tensor, along));
  }
  return cat(layers, along);
}

Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value) {
  if (before.rank() != x.rank() || after.rank() != x.rank()) {
    raise<ShapeError>("[pad] needs a number for each axis of {}, got {} and {}", x.shape(), before,
                      after);
  }
  Shape shape = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis) {
    for (const int64_t added : {before[axis], after[axis]}) {
      if (added < 0 || added > kMostPadding) {
        raise<ValueError>("[pad] adds from 0 to {} elements at an end, got {} and {}", kMostPadding,
                          before, after);
      }
    }
    shape[axis] += before[axis] + after[axis];
  }
  const Tensor out = full(shape, value, {x.dtype(), x.device()});
  Layout inner = out.layout();
  for (int axis = 0; axis < x.rank(); ++axis) {
    inner = inner.sliced(axis, before[axis], before[axis] + x.shape()[axis]);
  }
  copy_elements(x, view_of(out, inner));
  return record("pad", out, inputs(x), [before, from = x.shape()](const Tensor& grad) {
    Tensor part = grad;
    for (int axis = 0; axis < from.rank(); ++axis) {
      part = slice(part, axis, before[axis], before[axis] + from[axis]);
    }
    return gradients(part);
  });
}

Tensor repeat(const Tensor& x, const Dims& counts) {
  const int added = counts.rank() - x.rank();
  if (added < 0) {
    raise<ShapeError>("[repeat] needs a count for each axis of {}, got {}", x.shape(), counts);
  }
  // Each repeated axis gets one of size 1 before it, which repeats; both then become one.
  Shape apart, repeated, joined;
  for (int i = 0; i < counts.rank(); ++i) {
    if (counts[i] < 0) raise<ValueError>("[repeat] counts must not be negative, got {}", counts);
    const int64_t size = i < added ? 1 : x.shape()[i - added];
    if (counts[i] != 1) {
      apart.push_back(1);
      repeated.push_back(counts[i]);
    }
    apart.push_back(size);
    repeated.push_back(size);
    joined.push_back(numel({counts[i], size}));
  }
  return reshape(expand(reshape(x, apart), repeated), joined);
}

Tensor roll(const Tensor& x, int64_t shift, int64_t axis) {
  const int64_t size = x.shape()[normalize_axis("roll", axis, x.rank())];
  const int64_t moved = size == 0 ? 0 : (shift % size + size) % size;
  return cat({slice(x, axis, size - moved, size), slice(x, axis, 0, size - moved)}, axis);
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return triangle("tril", x, diagonal, greater_equal);
}

Tensor triu(const Tensor& x, int64_t diagonal) { return triangle("triu", x, diagonal, less_equal); }

}  // namespace capstan
