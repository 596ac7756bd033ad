// Defines Buffer, a tensor as the algorithms see it, and the checks of what a collective is given.
// They throw at once, on this rank alone, before anything is queued.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "distributed/comm/call.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed {

/// Holding one keeps the memory alive.
struct Buffer {
  /// Throws DeviceError, or ShapeError if the tensor is not contiguous.
  Buffer(Kind kind, const Tensor& tensor);

  /// Announces a write, before it (a tape must not save the tensor as it is now) and after it.
  void written() const { tensor.storage().bump_version(); }

  Tensor tensor;
  void* data;
  int64_t count, bytes;
  Dtype dtype;
};

void check_device(Kind kind, Device device);
/// That a rank is one of `size`.
void check_rank(Kind kind, int rank, int size);
/// That there is such a reduction of that dtype.
void check_reduce(Kind kind, Reduce op, Dtype dtype);
void check_dtypes(Kind kind, const Buffer& a, const Buffer& b);
/// That this rank's part has `count` elements.
void check_part(Kind kind, const Buffer& part, int64_t count);
/// That `all` holds one part of the size of `part` for each rank.
void check_parts(Kind kind, const Buffer& all, const Buffer& part, int size);
/// Where parts of these sizes begin, of `elements` together. `which` says whose they are.
Parts parts_of(Kind kind, const char* which, const Counts& counts, int ranks, int64_t elements);

}  // namespace capstan::distributed
