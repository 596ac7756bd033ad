#include "autograd/indexing.h"

#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// Checks that `indices` may be used on an axis of `size`.
void check_indices(const char* operation, const Tensor& x, const Tensor& indices, int64_t size) {
  if (indices.dtype() != Dtype::int64) wrong_dtype(operation, "int64 indices", indices.dtype());
  check_same_device(operation, x.device(), indices.device());
  if (indices.device().kind == Device::Kind::meta) return;
  const Tensor dense = contiguous(indices);
  const int64_t* const index = dense.data<int64_t>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    if (index[i] < 0 || index[i] >= size) {
      raise<ValueError>("[{}] indices must be in [0, {}), got {} at position {}", operation, size,
                        index[i], i);
    }
  }
}

/// `source` is what is written into `x`.
void check_source(const char* operation, const Tensor& x, const Tensor& source,
                  const Shape& shape) {
  check_alike(operation, x, source);
  if (source.shape() != shape) {
    raise<ShapeError>("[{}] source must be {}, got {}", operation, shape, source.shape());
  }
}

/// The axis, after the checks of gather and scatter.
int check_grid(const char* operation, const Tensor& x, int64_t axis, const Tensor& indices) {
  const int a = normalize_axis(operation, axis, x.rank());
  bool fits = indices.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = i == a || indices.shape()[i] <= x.shape()[i];
  }
  if (!fits) {
    raise<ShapeError>("[{}] indices {} must have the axes of {}, at most as long but for axis {}",
                      operation, indices.shape(), x.shape(), a);
  }
  check_indices(operation, x, indices, x.shape()[a]);
  return a;
}

/// The part of `x` that indices of a shape can reach.
Tensor reached(const Tensor& x, int axis, const Shape& shape) {
  Layout layout = x.layout();
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) layout = layout.sliced(i, 0, shape[i]);
  }
  return view_of(x, layout);
}

/// scatter and scatter_add, without a record.
Tensor scattered(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, bool add) {
  const Tensor out = dense_copy(x);
  backend(out).scatter(source, axis, indices, reached(out, axis, indices.shape()), add);
  return out;
}

/// indices [m] along `axis` of `shape`, the same for every line.
Tensor for_each_line(const Tensor& indices, int axis, Shape shape) {
  Shape column = Dims::filled(shape.rank(), 1);
  column[axis] = shape[axis] = indices.numel();
  return expand(reshape(indices, column), shape);
}

/// The axis, after the checks of index_select and index_add.
int check_list(const char* operation, const Tensor& x, int64_t axis, const Tensor& indices) {
  const int a = normalize_axis(operation, axis, x.rank());
  if (indices.rank() != 1) {
    raise<ShapeError>("[{}] takes a list [m] of indices, got {}", operation, indices.shape());
  }
  check_indices(operation, x, indices, x.shape()[a]);
  return a;
}

/// `mask` in the shape of `x`.
Tensor mask_of(const char* operation, const Tensor& x, const Tensor& mask) {
  if (mask.dtype() != Dtype::boolean) wrong_dtype(operation, "a bool mask", mask.dtype());
  check_same_device(operation, x.device(), mask.device());
  if (broadcast(operation, x.shape(), mask.shape()) != x.shape()) {
    raise<ShapeError>("[{}] the mask {} does not broadcast to {}", operation, mask.shape(),
                      x.shape());
  }
  return expand(mask, x.shape());
}

}  // namespace

Tensor take_rows(const Tensor& x, const Tensor& indices) {
  if (x.rank() == 0) raise<ShapeError>("[take_rows] takes rows [n, ...], got a scalar");
  check_indices("take_rows", x, indices, x.shape()[0]);
  const Tensor list = contiguous(reshape(indices, {-1}));
  Shape rows = x.shape();  // [indices, ...]
  rows[0] = list.numel();
  Shape shape = indices.shape();  // [indices..., ...]
  for (int i = 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);

  const Tensor out = empty(rows, {x.dtype(), x.device()});
  backend(out).take_rows(contiguous(detach(x)), list, out);
  return record("take_rows", reshaped(out, shape), inputs(x),
                [rows, whole = x.shape(), list = Saved(list)](const Tensor& grad) {
                  const Tensor none = zeros(whole, {grad.dtype(), grad.device()});
                  return gradients(index_add(none, 0, list.get(), reshape(grad, rows)));
                });
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& indices) {
  const int a = check_list("index_select", x, axis, indices);
  return a == 0 ? take_rows(x, indices) : gather(x, a, for_each_line(indices, a, x.shape()));
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source) {
  const int a = check_list("index_add", x, axis, indices);
  Shape shape = x.shape();
  shape[a] = indices.numel();
  check_source("index_add", x, source, shape);
  if (a != 0) return scatter_add(x, a, for_each_line(indices, a, shape), source);
  const Tensor out = dense_copy(x), list = contiguous(indices);
  backend(out).add_rows(contiguous(detach(source)), list, out);
  return record(
      "index_add", out, inputs(x, source), [list = Saved(list)](const Tensor& grad, Wanted wanted) {
        return gradients(Tensor(grad), wanted[1] ? take_rows(grad, list.get()) : Tensor());
      });
}

Tensor gather(const Tensor& x, int64_t axis, const Tensor& indices) {
  const int a = check_grid("gather", x, axis, indices);
  const Tensor out = empty(indices.shape(), {x.dtype(), x.device()});
  backend(out).gather(reached(x, a, indices.shape()), a, indices, out);
  return record("gather", out, inputs(x),
                [a, shape = x.shape(), indices = Saved(indices)](const Tensor& grad) {
                  const Tensor none = zeros(shape, {grad.dtype(), grad.device()});
                  return gradients(scatter_add(none, a, indices.get(), grad));
                });
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source) {
  const int a = check_grid("scatter", x, axis, indices);
  check_source("scatter", x, source, indices.shape());
  return record(
      "scatter", scattered(x, a, indices, source, false), inputs(x, source),
      [a, indices = Saved(indices)](const Tensor& grad, Wanted wanted) {
        const Tensor at = indices.get();
        const auto overwritten = [&] {
          return scatter(grad, a, at, zeros(at.shape(), {grad.dtype(), grad.device()}));
        };
        const auto taken = [&] {  // where indices repeat, from the last alone
          Shape line = Dims::filled(at.rank(), 1);
          line[a] = at.shape()[a];
          const Tensor turn = contiguous(
              expand(reshape(arange(line[a], {Dtype::int64, at.device()}), line), at.shape()));
          const Tensor last = gather(
              scatter(full(grad.shape(), -1, {Dtype::int64, at.device()}), a, at, turn), a, at);
          return where(equal(last, turn), gather(grad, a, at), scalar_beside(grad, 0));
        };
        return gradients(wanted[0] ? overwritten() : Tensor(), wanted[1] ? taken() : Tensor());
      });
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& indices, const Tensor& source) {
  const int a = check_grid("scatter_add", x, axis, indices);
  check_source("scatter_add", x, source, indices.shape());
  return record("scatter_add", scattered(x, a, indices, source, true), inputs(x, source),
                [a, indices = Saved(indices)](const Tensor& grad, Wanted wanted) {
                  return gradients(Tensor(grad),
                                   wanted[1] ? gather(grad, a, indices.get()) : Tensor());
                });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  if (x.dtype() != Dtype::boolean && scalar_beside(x, value).dtype() != x.dtype()) {
    raise<DtypeError>("[masked_fill] {} cannot hold {}", x.dtype(), value);
  }
  const Tensor filler = full({}, value, {x.dtype(), x.device()});
  return where(mask_of("masked_fill", x, mask), filler, x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const Tensor flags = contiguous(mask_of("masked_select", x, mask));
  if (x.device().kind == Device::Kind::meta) {
    raise<DeviceError>("[masked_select] the shape depends on values, and meta has none");
  }
  return take_rows(reshape(x, {-1}), backend(flags).true_positions(flags));
}

Tensor nonzero(const Tensor& x) {
  if (x.device().kind == Device::Kind::meta) {
    raise<DeviceError>("[nonzero] the shape depends on values, and meta has none");
  }
  const Tensor flags = contiguous(cast(detach(x), Dtype::boolean));
  Tensor rest = backend(flags).true_positions(flags);
  if (x.rank() == 0) return empty({rest.numel(), 0}, {Dtype::int64, x.device()});
  std::vector<Tensor> columns(x.rank());
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const Tensor size =
        scalar_beside(rest, static_cast<double>(std::max<int64_t>(x.shape()[axis], 1)));
    columns[axis] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  return stack(columns, 1);
}

}  // namespace capstan
