#include "core/create.h"

#include <cmath>

#include "core/raise.h"

namespace capstan {

namespace {

/// value(0), ..., value(count - 1) in the dtype and on the device of `options`.
template <class Value>
Tensor numbers(const char* operation, int64_t count, TensorOptions options, const Value& value) {
  if (options.device.kind == Device::Kind::meta) return empty({count}, options);
  const Tensor exact = empty({count}, {.dtype = Dtype::float64});
  double* const x = exact.mutable_data<double>();
  for (int64_t i = 0; i < count; ++i) {
    x[i] = value(i);
    if (!is_floating(options.dtype) && std::trunc(x[i]) != x[i]) {
      raise<ValueError>("[{}] {} cannot hold {}, number {} of the row", operation, options.dtype,
                        x[i], i);
    }
  }
  const Tensor out = empty({count}, options);
  // The ends of a row are its extremes; filling with them checks that the dtype holds both.
  for (const int64_t end : {int64_t{0}, count - 1}) {
    if (count > 0) fill_elements(out, x[end]);
  }
  copy_elements(exact, out);
  return out;
}

}  // namespace

Tensor full_like(const Tensor& like, double value) {
  return full(like.shape(), value, {like.dtype(), like.device()});
}
Tensor zeros_like(const Tensor& like) { return full_like(like, 0); }
Tensor ones_like(const Tensor& like) { return full_like(like, 1); }

Tensor detail::arange(double start, double stop, double step, TensorOptions options) {
  const double count = std::ceil((stop - start) / step);
  if (!std::isfinite(count) || !(std::abs(count) < 0x1p62)) {
    raise<ValueError>("[arange] needs finite ends and a step that is not 0, got {}, {}, {}", start,
                      stop, step);
  }
  return numbers("arange", std::max<int64_t>(0, static_cast<int64_t>(count)), options,
                 [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

Tensor linspace(double start, double stop, int64_t count, TensorOptions options) {
  if (count < 0 || !std::isfinite(start) || !std::isfinite(stop)) {
    raise<ValueError>("[linspace] needs finite ends and a count from 0, got {}, {}, {}", start,
                      stop, count);
  }
  const double gaps = static_cast<double>(std::max<int64_t>(1, count - 1));
  return numbers("linspace", count, options, [=](int64_t i) {
    const double part = static_cast<double>(i) / gaps;
    return start * (1 - part) + stop * part;  // exact at both ends
  });
}

Tensor eye(int64_t rows, TensorOptions options) { return eye(rows, rows, options); }

Tensor eye(int64_t rows, int64_t columns, TensorOptions options) {
  const Tensor out = zeros({rows, columns}, options);
  fill_elements(view_of(out, out.layout().diagonal(0, 1)), 1);
  return out;
}

template <class T>
Tensor from_pointer(const T* first, const Shape& shape) {
  const Tensor out = empty(shape, {.dtype = dtype_of<T>()});
  if (!first && out.numel() > 0) {
    raise<ValueError>("[from_pointer] the pointer is null, but {} has elements", shape);
  }
  std::copy_n(first, out.numel(), out.mutable_data<T>());
  return out;
}

template Tensor from_pointer(const float*, const Shape&);
template Tensor from_pointer(const double*, const Shape&);
template Tensor from_pointer(const int64_t*, const Shape&);
template Tensor from_pointer(const int32_t*, const Shape&);
template Tensor from_pointer(const uint8_t*, const Shape&);
template Tensor from_pointer(const bool*, const Shape&);

}  // namespace capstan
