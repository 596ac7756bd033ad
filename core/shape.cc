#include "core/shape.h"

#include "core/raise.h"

namespace capstan {

Dims::Dims(const int64_t* first, const int64_t* last) : rank_(static_cast<int>(last - first)) {
  if (last - first > kMaxRank) {
    raise<ShapeError>("[shape] a tensor has at most {} axes, got {}", kMaxRank, last - first);
  }
  std::copy(first, last, values_);
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) { insert(rank_, value); }

void Dims::insert(int axis, int64_t value) {
  if (rank_ == kMaxRank) raise<ShapeError>("[shape] a tensor has at most {} axes", kMaxRank);
  std::copy_backward(values_ + axis, values_ + rank_, values_ + rank_ + 1);
  values_[axis] = value;
  ++rank_;
}

void Dims::erase(int axis) {
  std::copy(values_ + axis + 1, values_ + rank_, values_ + axis);
  --rank_;
}

int64_t numel(const Shape& shape) {
  int64_t product = 1;
  bool empty = false, overflow = false;
  for (int64_t size : shape) {
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(product, size == 0 ? 1 : size, &product);
  }
  if (overflow) raise<ShapeError>("[shape] {} has more elements than 63 bits can count", shape);
  return empty ? 0 : product;
}

Strides dense_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  Shape out = a.rank() >= b.rank() ? a : b;
  const int shift_a = out.rank() - a.rank(), shift_b = out.rank() - b.rank();
  for (int axis = 0; axis < out.rank(); ++axis) {
    const int64_t in_a = axis < shift_a ? 1 : a[axis - shift_a];
    const int64_t in_b = axis < shift_b ? 1 : b[axis - shift_b];
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      raise<ShapeError>(
          "[{}] shapes {} and {} do not broadcast: aligned at the right, sizes must be equal or 1",
          operation, a, b);
    }
    out[axis] = in_a == 1 ? in_b : in_a;
  }
  return out;
}

int normalize_axis(const char* operation, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    raise<ShapeError>("[{}] axis {} is out of range for a tensor with {} axes", operation, axis,
                      rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

AxisSet::AxisSet(const char* operation, const Dims& axes, int rank) {
  for (int64_t axis : axes) {
    const int a = normalize_axis(operation, axis, rank);
    if (bits_ >> a & 1) raise<ShapeError>("[{}] axes {} name axis {} twice", operation, axes, a);
    bits_ |= 1u << a;
  }
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int64_t value : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "]";
}

}  // namespace capstan
