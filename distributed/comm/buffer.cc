// Implements Buffer and the checks.
#include "distributed/comm/buffer.h"

#include "core/raise.h"

namespace capstan::distributed {

Buffer::Buffer(Kind kind, const Tensor& tensor) : tensor(tensor) {
  check_device(kind, tensor.device());
  if (!tensor.is_contiguous()) {
    raise<ShapeError>(
        "[{}] the tensor must be contiguous, got shape {} with strides {}; pass a copy",
        to_string(kind), tensor.shape(), tensor.strides());
  }
  data = tensor.address();
  count = tensor.numel();
  bytes = tensor.bytes();
  dtype = tensor.dtype();
}

void check_device(Kind kind, Device device) {
  if (device.kind == Device::Kind::cpu) return;
  raise<DeviceError>("[{}] this communicator moves host memory, got a tensor on {}",
                     to_string(kind), device);
}

void check_rank(Kind kind, int rank, int size) {
  if (rank < 0 || rank >= size) {
    raise<ValueError>("[{}] rank {} is not among the {} of this communicator", to_string(kind),
                      rank, size);
  }
}

void check_reduce(Kind kind, Reduce op, Dtype dtype) {
  const bool bits = op == Reduce::bit_and || op == Reduce::bit_or;
  if ((op == Reduce::mean && !is_floating(dtype)) || (bits && is_floating(dtype))) {
    raise<DtypeError>("[{}] there is no {} of {}", to_string(kind), to_string(op), dtype);
  }
}

void check_part(Kind kind, const Buffer& part, int64_t count) {
  if (part.count == count) return;
  raise<ShapeError>("[{}] this rank's part has {} elements, its tensor is {}", to_string(kind),
                    count, part.tensor.shape());
}

void check_dtypes(Kind kind, const Buffer& a, const Buffer& b) {
  if (a.dtype == b.dtype) return;
  raise<DtypeError>("[{}] dtypes must agree, got {} and {}", to_string(kind), a.dtype, b.dtype);
}

void check_parts(Kind kind, const Buffer& all, const Buffer& part, int size) {
  check_dtypes(kind, all, part);
  if (all.count != part.count * size) {
    raise<ShapeError>(
        "[{}] the whole must have {} parts of the size of a rank's tensor, got {} and {}",
        to_string(kind), size, all.tensor.shape(), part.tensor.shape());
  }
}

Parts parts_of(Kind kind, const char* which, const Counts& counts, int ranks, int64_t elements) {
  Parts parts{0};
  for (int64_t count : counts) {
    if (count < 0)
      raise<ValueError>("[{}] counts must be 0 or more, got {}", to_string(kind), count);
    parts.push_back(parts.back() + count);
  }
  if (std::ssize(counts) != ranks || parts.back() != elements) {
    raise<ShapeError>(
        "[{}] there must be a count for each of the {} ranks, {} elements of {} together; got {} "
        "counts, {} elements",
        to_string(kind), ranks, elements, which, counts.size(), parts.back());
  }
  return parts;
}

}  // namespace capstan::distributed
