// A recorded write gives the base (parts.h) a new node, which leads to the base as it was, but for
// the written elements, and to the value. Views find their places anew when they are next used:
// PyTorch calls this rebasing the history.
#include "autograd/in_place.h"

#include "autograd/arithmetic.h"
#include "autograd/operands.h"
#include "autograd/parts.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// Elements of a dense row: maps any layout of the row to theirs.
struct Places {
  Layout in_row;

  /// Those that `view` shows of dense `base`, as a row.
  Places(const Tensor& base, const Layout& view) : in_row(view) {
    in_row.offset -= base.layout().offset;
  }
  Layout operator()(const Layout& row) const {
    Layout out = in_row;
    const int64_t step = row.strides[0];
    out.offset = row.offset + in_row.offset * step;
    for (int axis = 0; axis < out.strides.rank(); ++axis) out.strides[axis] *= step;
    return out;
  }
};

Tensor row_of(const Tensor& dense) { return reshape(dense, {dense.numel()}); }

/// `row` with 0 at `places`.
Tensor without(const Tensor& row, const Places& places) {
  const Tensor out = dense_copy(row);
  fill_elements(view_of(out, places(out.layout())), 0);
  return record("assign", out, inputs(row),
                [places](const Tensor& grad) { return gradients(without(grad, places)); });
}

/// What `target` is a view of, or itself.
Tensor base_of(const Tensor& target) {
  const Ref<TensorBody>& base = target.body().base;
  return base ? Tensor(base) : target;
}

/// True if the tape must hear of a write.
bool must_follow(const Tensor& target, const Tensor& value) {
  return grad_enabled() && is_floating(target.dtype()) &&
         (base_of(target).requires_grad() || value.requires_grad());
}

/// Refuses writes that the tape could not follow.
void check_followed(const char* operation, const Tensor& target) {
  const Tensor base = base_of(target);
  if (base.requires_grad() && static_cast<Node&>(*base.node()).is_leaf()) {
    raise<GradientError>(
        "[{}] the target {} is a leaf that requires a gradient, or a view of one: change it inside "
        "no_grad(), or a clone() of it",
        operation, target.shape());
  }
  if (base.body().seen_writes == TensorBody::kApart && base.storage().references() > 1) {
    raise<GradientError>(
        "[{}] the target {} was made by detach() or inside no_grad(), and others hold its memory: "
        "clone() it first",
        operation, target.shape());
  }
  if (!base.same(target) && !base.is_contiguous()) {
    raise<GradientError>(
        "[{}] the target {} is a view of a tensor {} that is not contiguous(): clone() that one",
        operation, target.shape(), base.shape());
  }
}

/// Puts the write of `value` into `target` on the tape, after it was done.
void record_write(const char* operation, const Tensor& target, const Tensor& value) {
  const Tensor base = base_of(target);
  Tensor result = view_of(base, base.layout());
  if (base.same(target)) {  // nothing is left of what it was
    result = record(operation, result, inputs(value), [value = Origin(value)](const Tensor& grad) {
      return gradients(value.back(grad));
    });
  } else {
    result = record(operation, result, inputs(base, value),
                    [places = Places(base, target.layout()), shape = base.shape(),
                     value = Origin(value)](const Tensor& grad, Wanted wanted) {
                      const Tensor row = row_of(grad);
                      return gradients(
                          wanted[0] ? reshape(without(row, places), shape) : Tensor(),
                          wanted[1] ? value.back(part_of("assign", row, places)) : Tensor());
                    });
  }
  base.storage().bump_version();  // kernels on meta do not, and it is a change there too
  base.storage().add_recorded_write();
  TensorBody& body = base.body();
  body.node = result.body().node;
  body.output = 0;
  body.seen_writes = base.storage().recorded_writes();
}

/// Writes `value` (of a shape and dtype that fit) into `target`.
void write(const char* operation, const Tensor& target, const Tensor& value) {
  if (broadcast(operation, target.shape(), value.shape()) != target.shape()) {
    raise<ShapeError>("[{}] {} does not broadcast to the target's {}", operation, value.shape(),
                      target.shape());
  }
  const bool recorded = must_follow(target, value);
  check_not_repeated(operation, target);
  if (recorded) {
    check_same_device(operation, target.device(), value.device());
    check_followed(operation, target);
  }
  copy_elements(view_of(value, value.layout().expanded(target.shape())), target);
  if (recorded) record_write(operation, target, value);
}

/// target = f(target, value), in place.
void change(const char* operation, Binary kernel, Tensor (*f)(const Tensor&, const Tensor&),
            const Tensor& target, const Tensor& value) {
  const Dtype dtype = kernel == Binary::divide && !is_floating(target.dtype())
                          ? Dtype::float32
                          : promote(target.dtype(), value.dtype());
  const bool converts = is_floating(dtype) && is_floating(target.dtype());
  if (dtype != target.dtype() && !converts) {
    raise<DtypeError>("[{}] {} and {} give {}, which does not go into the target: cast() one",
                      operation, target.dtype(), value.dtype(), dtype);
  }
  check_same_device(operation, target.device(), value.device());
  const bool shares = &target.storage() == &value.storage();
  const bool fits = broadcast(operation, target.shape(), value.shape()) == target.shape();
  if (must_follow(target, value)) {
    // Products save their factors, which are about to change.
    const bool saves = kernel == Binary::multiply || kernel == Binary::divide;
    return write(operation, target,
                 f(saves ? clone(target) : target, saves && shares ? clone(value) : value));
  }
  if (shares || !fits || dtype != target.dtype()) {
    return write(operation, target, f(target, value));
  }
  check_not_repeated(operation, target);
  backend(target).binary(kernel, target, as_operand(value, dtype, target.shape()), target);
}

}  // namespace

Tensor part_at(const Tensor& base, const Layout& layout) {
  if (!base.is_contiguous()) {
    raise<GradientError>(
        "[view] a tensor {} that is not contiguous() was changed in place, and its view {} cannot "
        "follow on the tape: take the view again, or clone() the tensor first",
        base.shape(), layout.shape);
  }
  Layout once = layout;  // each element
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    if (layout.strides[axis] == 0 && layout.shape[axis] > 1) once.shape[axis] = 1;
  }
  const Tensor part = part_of("view", row_of(base), Places(base, once));
  return once.shape == layout.shape ? part : expand(part, layout.shape);
}

void assign(const Tensor& target, const Tensor& value) { write("assign", target, value); }

void assign(const Tensor& target, double value) {
  const Tensor constant = full({}, value, {target.dtype(), target.device()});
  write("assign", target, constant);
}

void assign_where(const Tensor& target, const Tensor& mask, const Tensor& value) {
  if (broadcast("assign_where", target.shape(), mask.shape()) != target.shape()) {
    raise<ShapeError>("[assign_where] the mask {} does not broadcast to the target's {}",
                      mask.shape(), target.shape());
  }
  if (mask.dtype() != Dtype::boolean) wrong_dtype("assign_where", "a bool mask", mask.dtype());
  check_same_device("assign_where", target.device(), mask.device());
  check_same_device("assign_where", target.device(), value.device());
  // The mask is saved, and may be what is written to.
  write("assign_where", target, where(clone(mask), cast(value, target.dtype()), target));
}

void assign_where(const Tensor& target, const Tensor& mask, double value) {
  assign_where(target, mask, full({}, value, {target.dtype(), target.device()}));
}

void add_in_place(const Tensor& target, const Tensor& value) {
  change("add_in_place", Binary::add, add, target, value);
}
void subtract_in_place(const Tensor& target, const Tensor& value) {
  change("subtract_in_place", Binary::subtract, subtract, target, value);
}
void multiply_in_place(const Tensor& target, const Tensor& value) {
  change("multiply_in_place", Binary::multiply, multiply, target, value);
}
void divide_in_place(const Tensor& target, const Tensor& value) {
  change("divide_in_place", Binary::divide, divide, target, value);
}

const Tensor& operator+=(const Tensor& target, const Tensor& value) {
  add_in_place(target, value);
  return target;
}
const Tensor& operator-=(const Tensor& target, const Tensor& value) {
  subtract_in_place(target, value);
  return target;
}
const Tensor& operator*=(const Tensor& target, const Tensor& value) {
  multiply_in_place(target, value);
  return target;
}
const Tensor& operator/=(const Tensor& target, const Tensor& value) {
  divide_in_place(target, value);
  return target;
}
const Tensor& operator+=(const Tensor& target, double value) {
  return target += scalar_beside(target, value);
}
const Tensor& operator-=(const Tensor& target, double value) {
  return target -= scalar_beside(target, value);
}
const Tensor& operator*=(const Tensor& target, double value) {
  return target *= scalar_beside(target, value);
}
const Tensor& operator/=(const Tensor& target, double value) {
  return target /= scalar_beside(target, value);
}

}  // namespace capstan
