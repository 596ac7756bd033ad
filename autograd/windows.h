// Defines the checks of sliding windows that convolution and pooling share. For the .cc files of
// this folder, and of the layers, which refuse at construction what no input could go through.
#pragma once

#include <utility>

#include "core/backend.h"

namespace capstan {

/// Throws ValueError for a window without sense, or one whose sizes might overflow.
void check_window(const char* operation, const Window2d& window);

/// Height and width of the result of sliding `window` over x [n, channels, height, width]. Throws
/// DtypeError unless x is floating point, ShapeError, and ValueError as
/// check_window() does.
std::pair<int64_t, int64_t> output_size(const char* operation, const Tensor& x,
                                        const Window2d& window);

/// Throws as check_window(), and ValueError if the window's padding is more than half of its
/// kernel: it would see nothing but padding. Pooling has no dilation either.
void check_pooling(const char* operation, const Window2d& window);

/// Throws ValueError for sizes of a result below 1.
void check_pooled_sizes(const char* operation, int64_t height, int64_t width);

/// Throws ValueError unless the output padding of a transposed convolution is in [0, stride).
void check_output_padding(const char* operation, int64_t padding, int64_t stride);

}  // namespace capstan
