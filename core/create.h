// Defines more ways of making tensors than tensor.h needs for itself.
#pragma once

#include <type_traits>

#include "core/tensor.h"

namespace capstan {

Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
Tensor full_like(const Tensor& like, double value);

namespace detail {
Tensor arange(double start, double stop, double step, TensorOptions options);
}  // namespace detail

/// start, start + step, ... before stop, each worked out in float64 as start + i * step; int64 if
/// all three are integers, else float32, unless `options` say otherwise. Throws ValueError unless
/// all three are finite and step is not 0, or if an integer dtype is to hold a fraction.
template <class Start, class Stop, class Step = int>
requires(
    std::is_arithmetic_v<Start>&& std::is_arithmetic_v<Stop>&& std::is_arithmetic_v<Step>) Tensor
    arange(Start start, Stop stop, Step step = 1,
           TensorOptions options = {.dtype = std::is_integral_v<decltype(start + stop + step)>
                                                 ? Dtype::int64
                                                 : Dtype::float32}) {
  return detail::arange(static_cast<double>(start), static_cast<double>(stop),
                        static_cast<double>(step), options);
}
/// `count` numbers from `start` to `stop`, both included, evenly apart; one number is `start`.
/// Throws ValueError for a negative count or ends that are not finite.
Tensor linspace(double start, double stop, int64_t count, TensorOptions options = {});
/// 1 on the main diagonal of a matrix, 0 elsewhere; square unless `columns` is given.
Tensor eye(int64_t rows, TensorOptions options = {});
Tensor eye(int64_t rows, int64_t columns, TensorOptions options = {});

/// A dense copy of numel(shape) elements at `first`, on cpu:0 with the dtype of T. Throws
/// ValueError for a null pointer where there are elements.
template <class T>
Tensor from_pointer(const T* first, const Shape& shape);

}  // namespace capstan
