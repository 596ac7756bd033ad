// Defines Tensor, the value handle that everything in Capstan passes around.
//
// A Tensor is a reference to storage + layout + dtype + device. Copying a Tensor shares its
// elements; clone() copies them. Views (transpose, slice, ...) are other tensors over the same
// storage.
//
// This header holds what needs no arithmetic: making tensors and looking into them. Differentiable
// operations (add, matmul, reshape, ...) are free functions in autograd/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/layout.h"
#include "core/storage.h"

namespace capstan {

class Tensor;

/// A tensor's place on the tape. core only carries the pointer; autograd/node.h derives from it.
class TapeNode : public RefCounted {
 public:
  /// The gradient accumulated here, or null: only leaves accumulate.
  virtual const Tensor* gradient() const { return nullptr; }
  /// The place of the view `layout` of `base`, which is made here.
  virtual Ref<TapeNode> place_of_view(const Tensor& base, const Layout& layout) const;
};

/// The shared part of a Tensor; see Tensor for the meaning of the fields.
struct TensorBody : RefCounted {
  static constexpr int32_t kApart = -1;

  TensorBody(Ref<Storage> storage, const Layout& layout, Dtype dtype)
      : storage(std::move(storage)), layout(layout), dtype(dtype) {}

  Ref<Storage> storage;
  Layout layout;
  Dtype dtype;
  // The operation that made it, or a leaf's accumulator; null: no gradient. To be read with
  // Tensor::node(): after a recorded write to the elements it is out of date.
  Ref<TapeNode> node;
  int32_t output = 0;       // which of the node's outputs this is
  int32_t seen_writes = 0;  // the storage's recorded writes that `node` knows of; or kApart
  Ref<TensorBody>
      base;  // what this is a view of, as the tape sees it (never itself a view); or null
};

class Tensor {
 public:
  /// An empty handle, only good for being assigned to; using it throws ValueError.
  Tensor() = default;
  explicit Tensor(Ref<TensorBody> body) : body_(std::move(body)) {}

  bool defined() const { return static_cast<bool>(body_); }

  const Shape& shape() const { return body().layout.shape; }
  const Strides& strides() const { return body().layout.strides; }
  const Layout& layout() const { return body().layout; }
  int rank() const { return shape().rank(); }
  /// Size of one axis; negative axes count from the back.
  int64_t size(int64_t axis) const { return shape()[normalize_axis("size", axis, rank())]; }
  int64_t numel() const { return capstan::numel(shape()); }
  int64_t bytes() const { return numel() * item_size(dtype()); }
  Dtype dtype() const { return body().dtype; }
  Device device() const { return body().storage->device(); }
  bool is_contiguous() const { return body().layout.is_contiguous(); }
  Storage& storage() const { return *body().storage; }
  int64_t version() const { return storage().version(); }

  /// Address of the first element; T must be the dtype's type, else DtypeError. May be null for an
  /// empty tensor. Throws DeviceError on meta, ValueError if the storage was released.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(address(dtype_of<T>()));
  }
  /// The same for writing: counts as a change in place, which the tape will notice.
  template <class T>
  T* mutable_data() const {
    storage().bump_version();
    return static_cast<T*>(address(dtype_of<T>()));
  }
  /// Address of the first element, whatever the dtype.
  void* address() const;

  /// The only element, converted to T. Throws ShapeError if there is not exactly one.
  template <class T>
  T item() const;
  /// All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  /// Its place on the tape; null if it needs no gradient. Throws GradientError if its elements were
  /// changed in place on the tape in a way that it cannot follow.
  const Ref<TapeNode>& node() const {
    const TensorBody& b = body();
    const int32_t seen = b.seen_writes;
    if (seen != b.storage->recorded_writes() && seen != TensorBody::kApart) catch_up();
    return b.node;
  }
  /// True if operations on this tensor are recorded on the tape.
  bool requires_grad() const { return static_cast<bool>(node()); }
  /// True once a backward pass has delivered a gradient to this leaf.
  bool has_grad() const { return requires_grad() && node()->gradient() != nullptr; }
  /// The accumulated gradient of a leaf. Throws GradientError if there is none.
  const Tensor& grad() const;

  /// The shared part, for the code that builds tensors.
  TensorBody& body() const {
    if (!body_) use_of_empty_handle();
    return *body_;
  }
  /// True if both are handles of one tensor (not merely of equal elements).
  bool same(const Tensor& other) const { return body_ == other.body_; }

 private:
  [[noreturn]] static void use_of_empty_handle();
  void catch_up() const;
  void* address(Dtype expected) const;

  Ref<TensorBody> body_;
};

/// How to make a tensor where it differs from float32 on cpu:0.
struct TensorOptions {
  Dtype dtype = Dtype::float32;
  Device device = {};
};

/// An uninitialised dense tensor. Throws ShapeError for negative sizes.
Tensor empty(const Shape& shape, TensorOptions options = {});
/// Shape, dtype and device of `like`, dense, uninitialised.
Tensor empty_like(const Tensor& like);
/// Throws as fill_elements() does.
Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
/// 0, 1, ..., count - 1.
Tensor arange(int64_t count, TensorOptions options = {.dtype = Dtype::int64});
/// A one-element tensor without axes.
Tensor scalar(double value, TensorOptions options = {});

/// A dense copy of `values` on cpu:0 with the dtype of T. Throws ShapeError unless the count fits.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape);

/// `fresh`, a dense tensor that nothing else knows of yet, under another shape of as many elements.
Tensor reshaped(const Tensor& fresh, const Shape& shape);
/// Another tensor over the storage of `base`, outside the tape: it follows no recorded write to the
/// elements. Throws ShapeError unless `layout` lies inside it.
Tensor view_of(const Tensor& base, const Layout& layout);
/// The same over any storage; the layout's offset counts elements of `dtype`.
Tensor tensor_over(Ref<Storage> storage, const Layout& layout, Dtype dtype);

/// Throws ShapeError if `target` has several elements in one place: it must not be written to.
void check_not_repeated(const char* operation, const Tensor& target);
/// Writes the elements of `from` into `to` (equal shapes), converting the dtype, outside the tape.
/// They may share storage. Writing to meta does nothing. Throws ShapeError for shapes that differ
/// or a target that repeats elements, DeviceError for reading from meta.
void copy_elements(const Tensor& from, const Tensor& to);
/// Multiplies every element of a floating point tensor, in place and outside the tape.
void scale_elements(const Tensor& tensor, double factor);
/// Sets every element, outside the tape. Throws ValueError for a value that an integer dtype cannot
/// hold; any value but 0 makes a bool true.
void fill_elements(const Tensor& tensor, double value);
/// A dense copy outside the tape; `clone()` in autograd is the recorded one.
Tensor dense_copy(const Tensor& tensor);

/// Tensors under names, in a fixed order: a model's parameters, an optimizer's state.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Dtype, shape, device and elements, for messages and debugging: "float32 [3] cpu:0 [1, 2, 3]".
/// Axes longer than 7 are cut to their ends.
std::string to_string(const Tensor& tensor);

}  // namespace capstan
