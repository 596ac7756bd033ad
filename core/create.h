// Defines more ways of making tensors than tensor.h needs for itself.
#pragma once

#include "core/tensor.h"

namespace capstan {

Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
Tensor full_like(const Tensor& like, double value);

/// start, start + step, ... before stop, each worked out in float64 as start + i * step. Throws
/// ValueError unless all three are finite and step is not 0, or if an integer dtype is to hold a
/// fraction.
Tensor arange(double start, double stop, double step = 1, TensorOptions options = {});
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
