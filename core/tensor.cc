// Making tensors, and looking into them. Read in this order: the checks, access to elements, making
// tensors, views, copies, text.
#include "core/tensor.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "core/backend.h"
#include "core/raise.h"
#include "core/recipe.h"

namespace capstan {
namespace {

/// The elements that a layout touches lie in [first, last]; first > last if it is empty.
struct Extent {
  int64_t first = 0;
  int64_t last = -1;
  bool empty() const { return first > last; }
};

Extent extent_of(const Layout& layout) {
  Extent extent{layout.offset, layout.offset};
  bool overflow = false;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    if (layout.shape[axis] == 0) return {};
    int64_t reach;
    overflow |= __builtin_mul_overflow(layout.shape[axis] - 1, layout.strides[axis], &reach);
    int64_t& end = reach < 0 ? extent.first : extent.last;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  using Limits = std::numeric_limits<int64_t>;
  return overflow ? Extent{Limits::min(), Limits::max()} : extent;  // more than any storage holds
}

void check_sizes(const char* operation, const Shape& shape) {
  for (int64_t size : shape) {
    if (size < 0) raise<ShapeError>("[{}] sizes must not be negative, got {}", operation, shape);
  }
}

/// Bytes of a dense tensor, with the checks that every new tensor gets.
int64_t dense_bytes(const Shape& shape, Dtype dtype) {
  check_sizes("empty", shape);
  int64_t bytes;
  if (__builtin_mul_overflow(numel(shape), item_size(dtype), &bytes)) {
    raise<ShapeError>("[empty] {} of {} has more bytes than 63 bits can count", shape, dtype);
  }
  return bytes;
}

/// Throws ValueError if an integer dtype cannot hold `value`.
void check_representable(double value, Dtype dtype) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // 2^digits is a double where the largest T is not.
      const double low = std::numeric_limits<T>::min();
      const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value >= low && value < high && std::trunc(value) == value)) {
        raise<ValueError>("[fill] {} holds whole numbers from {} to {}, got {}", dtype,
                          std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), value);
      }
    }
  });
}

/// True if the two are the same elements in the same order.
bool coincide(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.dtype() == b.dtype() && a.strides() == b.strides() &&
         a.layout().offset == b.layout().offset;
}

/// True if writing one tensor may change the other.
bool overlap(const Tensor& a, const Tensor& b) {
  if (&a.storage() != &b.storage()) return false;
  const Extent in_a = extent_of(a.layout()), in_b = extent_of(b.layout());
  if (in_a.empty() || in_b.empty()) return false;
  const int64_t size_a = item_size(a.dtype()), size_b = item_size(b.dtype());
  return in_a.first * size_a < (in_b.last + 1) * size_b &&
         in_b.first * size_b < (in_a.last + 1) * size_a;
}

}  // namespace

Ref<TapeNode> TapeNode::place_of_view(const Tensor&, const Layout&) const { return nullptr; }

void Tensor::catch_up() const {
  TensorBody& b = body();
  const int32_t writes = b.storage->recorded_writes();
  if (!b.base || b.base->seen_writes != writes) {
    raise<GradientError>(
        "[tape] the elements of this tensor, of shape {}, were changed in place through another "
        "tensor over the same memory, and the tape cannot follow: clone() one of the two",
        b.layout.shape);
  }
  const Tensor base(b.base);
  b.node = b.base->node ? b.base->node->place_of_view(base, b.layout) : nullptr;
  b.output = 0;
  b.seen_writes = writes;
}

void Tensor::use_of_empty_handle() {
  raise<ValueError>("[tensor] this handle is empty: assign a tensor to it before using it");
}

void* Tensor::address() const {
  const TensorBody& b = body();
  if (void* const data = b.storage->data()) {
    return static_cast<char*>(data) + b.layout.offset * item_size(b.dtype);
  }
  if (device().kind == Device::Kind::meta) {
    raise<DeviceError>("[data] a tensor on meta has a shape but no elements, got {}", shape());
  }
  if (b.storage->bytes() > 0) {
    raise<ValueError>("[data] the storage of this tensor {} was released: refill() it first",
                      shape());
  }
  return nullptr;
}

void* Tensor::address(Dtype expected) const {
  if (dtype() != expected) {
    raise<DtypeError>("[data] the tensor holds {}, its elements were asked for as {}", dtype(),
                      expected);
  }
  return address();
}

template <class T>
T Tensor::item() const {
  if (numel() != 1) {
    raise<ShapeError>("[item] the tensor must have exactly one element, got shape {}", shape());
  }
  const void* const element = address();
  return visit_dtype(dtype(),
                     [&]<class S>() { return static_cast<T>(*static_cast<const S*>(element)); });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor dense = is_contiguous() ? *this : dense_copy(*this);
  const void* const first = dense.address();
  return visit_dtype(dtype(), [&]<class S>() {
    const S* const elements = static_cast<const S*>(first);
    return std::vector<T>(elements, elements + numel());
  });
}

const Tensor& Tensor::grad() const {
  if (!requires_grad()) {
    raise<GradientError>("[grad] this tensor, of shape {}, does not require a gradient", shape());
  }
  if (!has_grad()) {
    raise<GradientError>(
        "[grad] no gradient has reached this tensor, of shape {}: only leaves keep"
        " one, after a backward pass",
        shape());
  }
  return *node()->gradient();
}

Tensor empty(const Shape& shape, TensorOptions options) {
  if (Recipe::recording() && options.device.kind == Device::Kind::cpu) {
    options.device = Device::meta();
  }
  const int64_t bytes = dense_bytes(shape, options.dtype);
  return Tensor(make_ref<TensorBody>(make_ref<Storage>(bytes, options.device), Layout::dense(shape),
                                     options.dtype));
}

Tensor empty_like(const Tensor& like) {
  return empty(like.shape(), {.dtype = like.dtype(), .device = like.device()});
}

Tensor full(const Shape& shape, double value, TensorOptions options) {
  const Tensor out = empty(shape, options);
  fill_elements(out, value);
  return out;
}

Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }
Tensor scalar(double value, TensorOptions options) { return full({}, value, options); }

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  if (numel(shape) != static_cast<int64_t>(values.size())) {
    raise<ShapeError>("[from_vector] {} values do not fill shape {}", values.size(), shape);
  }
  const Tensor out = empty(shape, {.dtype = dtype_of<T>()});
  std::copy(values.begin(), values.end(), out.mutable_data<T>());
  return out;
}

Tensor arange(int64_t count, TensorOptions options) {
  if (count < 0) raise<ShapeError>("[arange] count must not be negative, got {}", count);
  if (count > 0) check_representable(count - 1, options.dtype);
  if (options.device.kind == Device::Kind::meta) return empty({count}, options);
  const Tensor numbers = empty({count}, {.dtype = Dtype::int64});
  int64_t* const first = numbers.mutable_data<int64_t>();
  std::iota(first, first + count, int64_t{0});
  if (options.dtype == Dtype::int64 && options.device == Device()) return numbers;
  const Tensor out = empty({count}, options);
  copy_elements(numbers, out);
  return out;
}

Tensor reshaped(const Tensor& fresh, const Shape& shape) {
  fresh.body().layout = Layout::dense(shape);
  return fresh;
}

Tensor view_of(const Tensor& base, const Layout& layout) {
  return tensor_over(base.body().storage, layout, base.dtype());
}

Tensor tensor_over(Ref<Storage> storage, const Layout& layout, Dtype dtype) {
  check_sizes("view", layout.shape);
  const Extent extent = extent_of(layout);
  const int64_t held = storage->bytes() / item_size(dtype);
  if (layout.shape.rank() != layout.strides.rank() ||
      (!extent.empty() && (extent.first < 0 || extent.last >= held))) {
    raise<ShapeError>(
        "[view] shape {} with strides {} and offset {} does not lie within {} elements",
        layout.shape, layout.strides, layout.offset, held);
  }
  const Tensor out(make_ref<TensorBody>(std::move(storage), layout, dtype));
  out.body().seen_writes = TensorBody::kApart;
  return out;
}

void check_not_repeated(const char* operation, const Tensor& target) {
  for (int axis = 0; axis < target.rank(); ++axis) {
    if (target.strides()[axis] == 0 && target.shape()[axis] > 1) {
      raise<ShapeError>(
          "[{}] the target repeats its elements along axis {} of {}: clone() it first", operation,
          axis, target.shape());
    }
  }
}

void copy_elements(const Tensor& from, const Tensor& to) {
  if (from.shape() != to.shape()) {
    raise<ShapeError>("[copy] shapes must be equal, got {} and {}", from.shape(), to.shape());
  }
  check_not_repeated("copy", to);
  if (coincide(from, to)) return;
  if (from.device().kind != to.device().kind) {
    if (to.device().kind == Device::Kind::meta) {  // where there are no elements to write
      if (!Recipe::recording()) return;
      raise<ValueError>("[recipe] elements {} come from elsewhere: make them while recording",
                        from.shape());
    }
    raise<DeviceError>("[copy] cannot copy from {} to {}", from.device(), to.device());
  }
  backend(to).copy(overlap(from, to) ? dense_copy(from) : from, to);
}

void fill_elements(const Tensor& tensor, double value) {
  check_representable(value, tensor.dtype());
  backend(tensor).fill(tensor, value);
}

void scale_elements(const Tensor& tensor, double factor) {
  check_floating("scale", tensor.dtype());
  check_not_repeated("scale", tensor);
  Tensor wide = tensor;
  if (is_half(tensor.dtype())) {  // in which the factor itself would be rounded
    wide = empty(tensor.shape(), {compute_dtype(tensor.dtype()), tensor.device()});
    copy_elements(tensor, wide);
  }
  const Tensor scalar = full({}, factor, {wide.dtype(), wide.device()});
  const Tensor everywhere = view_of(scalar, scalar.layout().expanded(wide.shape()));
  backend(wide).binary(Binary::multiply, wide, everywhere, wide);
  copy_elements(wide, tensor);  // nothing where they are one
}

Tensor dense_copy(const Tensor& tensor) {
  const Tensor out = empty_like(tensor);
  copy_elements(tensor, out);
  return out;
}

namespace {

/// Appends the elements under `layout`, one line for each run along the last axis.
void append_elements(std::string& text, const Tensor& tensor, const Layout& layout, int depth) {
  constexpr int64_t kEdge = 3;  // elements shown at either end of a long axis
  if (layout.shape.empty()) {
    const auto append = [&]<class T>() {
      const T value = *(static_cast<const T*>(tensor.storage().data()) + layout.offset);
      fmt::format_to(std::back_inserter(text), "{}", compute_type<T>{value});
    };
    return visit_dtype(tensor.dtype(), append);
  }
  const int64_t size = layout.shape[0];
  const std::string separator =
      layout.shape.rank() == 1 ? ", " : ",\n" + std::string(depth + 1, ' ');
  text += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) text += separator;
    if (size > 2 * kEdge + 1 && i == kEdge) {
      text += "...";
      i = size - kEdge - 1;
    } else {
      append_elements(text, tensor, layout.selected(0, i), depth + 1);
    }
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "empty handle";
  std::string text = fmt::format("{} {} {}", tensor.dtype(), tensor.shape(), tensor.device());
  if (tensor.device().kind == Device::Kind::meta || tensor.numel() == 0) return text;
  tensor.address();  // throws if the storage was released
  text += tensor.rank() > 1 ? "\n" : " ";
  append_elements(text, tensor, tensor.layout(), 0);
  return text;
}

template float Tensor::item() const;
template double Tensor::item() const;
template int64_t Tensor::item() const;
template int32_t Tensor::item() const;
template uint8_t Tensor::item() const;
template bool Tensor::item() const;

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

template Tensor from_vector(const std::vector<float>&, const Shape&);
template Tensor from_vector(const std::vector<double>&, const Shape&);
template Tensor from_vector(const std::vector<int64_t>&, const Shape&);
template Tensor from_vector(const std::vector<int32_t>&, const Shape&);
template Tensor from_vector(const std::vector<uint8_t>&, const Shape&);
template Tensor from_vector(const std::vector<bool>&, const Shape&);

}  // namespace capstan
