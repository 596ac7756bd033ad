// Defines what data sets and streams have in common: rows of a tensor at some indices.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace capstan::data {

/// The rows of `from` (dense, on the cpu) at `indices`, which are in range, as they are.
Tensor gather_rows(const Tensor& from, std::span<const int64_t> indices);

/// Throws ValueError for an index outside [0, size).
void check_indices(const char* operation, std::span<const int64_t> indices, int64_t size);

}  // namespace capstan::data
