// Defines Saved, a tensor that an operation keeps for backward, and PackSaved, with which a program
// chooses how it is kept: on another device, compressed, on disk, or not at all (checkpoint.h).
#pragma once

#include <functional>

#include "autograd/node.h"

namespace capstan {

/// Gives a packed tensor back, off the tape, with the shape, dtype and device that it had.
using Unpack = std::function<Tensor()>;

/// While it lives, every tensor that an operation on this thread would keep for backward goes to
/// `pack` instead, and backward calls what that returned when it needs the tensor, perhaps more
/// than once; both run off the tape. The innermost one counts. What is packed is no longer watched
/// for changes in place, unless `pack` does that. Tensors that need no gradient (masks, indices)
/// are kept and packed as well.
///
///   PackSaved offload([](const Tensor& x) -> Unpack {
///     return [file = write_to_file(x)] { return read_from_file(file); };
///   });
class PackSaved {
 public:
  explicit PackSaved(std::function<Unpack(const Tensor&)> pack);
  ~PackSaved();
  PackSaved(const PackSaved&) = delete;
  PackSaved& operator=(const PackSaved&) = delete;

  Unpack pack(const Tensor& tensor) const;

 private:
  std::function<Unpack(const Tensor&)> pack_;
  const PackSaved* outer_;
};

namespace detail {
/// What is kept instead of a tensor.
struct Packed : RefCounted {
  Packed(const Tensor& tensor, const PackSaved& how);

  Shape shape;
  Dtype dtype;
  Device device;
  Edge edge;  // the tensor's place on the tape
  Unpack unpack;
};
}  // namespace detail

/// A tensor kept for backward, with the version it had: get() throws GradientError if it was
/// changed in place since, instead of giving a wrong gradient. Views share the version of their
/// storage, so a change through any of them is noticed.
class Saved {
 public:
  /// Keeps an input of the operation.
  explicit Saved(const Tensor& input);
  /// Keeps the operation's own result, without its node: a node that held itself would never be
  /// freed. get() puts it back on the tape where a gradient of the gradient needs that.
  static Saved output(const Tensor& result, int output = 0);

  /// The tensor as it was saved. Throws GradientError if it was changed since, or if what Unpack
  /// gives is of another shape, dtype or device.
  Tensor get() const;

 private:
  static constexpr int kInput = -1;
  Saved(const Tensor& tensor, int output);

  Tensor tensor_;               // undefined if packed
  Ref<detail::Packed> packed_;  // else null
  int64_t version_ = 0;
  int output_;  // which of the node's outputs it is, or kInput
};

}  // namespace capstan
