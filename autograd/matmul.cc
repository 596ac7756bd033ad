#include "autograd/matmul.h"

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_pair(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, a.dtype());
  check_alike(operation, a, b);
}

/// `x` if the kernel can read it (of the last two axes one dense, the other stepping over it), else
/// a dense copy.
Tensor as_matrix(const Tensor& x) {
  const int row = x.rank() - 2, column = x.rank() - 1;
  const Strides& step = x.strides();
  const bool rows = step[column] == 1 && step[row] >= x.shape()[column];
  const bool columns = step[row] == 1 && step[column] >= x.shape()[row];
  return rows || columns ? x : dense_copy(x);
}

/// a [m, k] times b [k, n], or a batch of such products, off the tape.
Tensor product(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[a.rank() - 1] = b.shape()[b.rank() - 1];
  const Tensor out = empty(shape, {a.dtype(), a.device()});
  backend(out).matmul(as_matrix(a), as_matrix(b), out);
  return out;
}

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

/// product(), recorded.
Tensor recorded_product(const char* operation, const Tensor& a, const Tensor& b) {
  return record(operation, product(a, b), inputs(a, b),
                [operation, a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {
                  const auto times = [&](const Tensor& x, const Tensor& y) {
                    return recorded_product(operation, x, y);
                  };
                  return gradients(wanted[0] ? times(grad, transposed(b.get())) : Tensor(),
                                   wanted[1] ? times(transposed(a.get()), grad) : Tensor());
                });
}

/// grad [n, out] times weight [out, in]: the gradient of its input.
Tensor input_grad(const Tensor& grad, const Tensor& weight) {
  return recorded_product("linear", grad, weight);
}

/// grad [n, out] transposed times x [n, in]: the gradient of a linear layer's weight.
Tensor weight_grad(const Tensor& grad, const Tensor& x) {
  return recorded_product("linear", transposed(grad), x);
}

/// The first `count` axes of a shape.
Shape leading(const Shape& shape, int count) { return Dims(std::span(shape.begin(), count)); }

/// `x` [..., m, k] as a batch [size, m, k] of matrices, repeated over the axes of `batch`.
Tensor as_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return reshape(expand(x, shape), {numel(batch), x.size(-2), x.size(-1)});
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (const Autocasting on; on) return matmul(on.narrow(a), on.narrow(b));
  check_pair("matmul", a, b);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0 || a.size(-1) != b.size(column ? 0 : -2)) {
    raise<ShapeError>("[matmul] takes [..., m, k] and [..., k, n], got {} and {}", a.shape(),
                      b.shape());
  }
  if (a.rank() == 2 && b.rank() == 2) return recorded_product("matmul", a, b);
  if (row) return squeeze(matmul(unsqueeze(a, 0), b), column ? 0 : -2);
  if (column) return squeeze(matmul(a, unsqueeze(b, 1)), -1);

  Shape shape;
  Tensor result;
  if (b.rank() == 2) {  // one product of all rows
    shape = leading(a.shape(), a.rank() - 1);
    result = recorded_product("matmul", reshape(a, {numel(shape), a.size(-1)}), b);
  } else {
    const Shape batch =
        broadcast("matmul", leading(a.shape(), a.rank() - 2), leading(b.shape(), b.rank() - 2));
    shape = batch;
    shape.push_back(a.size(-2));
    result = recorded_product("matmul", as_batch(a, batch), as_batch(b, batch));
  }
  shape.push_back(b.size(-1));
  return reshape(result, shape);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (const Autocasting on; on) return bmm(on.narrow(a), on.narrow(b));
  check_pair("bmm", a, b);
  if (a.rank() != 3 || b.rank() != 3 || a.shape()[0] != b.shape()[0] ||
      a.shape()[2] != b.shape()[1]) {
    raise<ShapeError>("[bmm] takes [batch, m, k] and [batch, k, n], got {} and {}", a.shape(),
                      b.shape());
  }
  return recorded_product("bmm", a, b);
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  if (const Autocasting on; on) return addmm(on.narrow(x), on.narrow(a), on.narrow(b), beta, alpha);
  check_pair("addmm", a, b);
  check_pair("addmm", x, a);
  if (a.rank() != 2 || b.rank() != 2 || a.shape()[1] != b.shape()[0]) {
    raise<ShapeError>("[addmm] takes [m, k] and [k, n], got {} and {}", a.shape(), b.shape());
  }
  const Tensor ab = recorded_product("addmm", a, b);
  if (broadcast("addmm", x.shape(), ab.shape()) != ab.shape()) {
    raise<ShapeError>("[addmm] {} does not broadcast to the product's {}", x.shape(), ab.shape());
  }
  return (beta == 1 ? x : x * beta) + (alpha == 1 ? ab : ab * alpha);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (const Autocasting on; on) return dot(on.narrow(a), on.narrow(b));
  check_pair("dot", a, b);
  if (a.rank() != 1 || a.shape() != b.shape()) {
    raise<ShapeError>("[dot] takes two vectors [n], got {} and {}", a.shape(), b.shape());
  }
  return sum(a * b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  if (a.rank() != 1 || b.rank() != 1) {
    raise<ShapeError>("[outer] takes vectors [m] and [n], got {} and {}", a.shape(), b.shape());
  }
  check_same_device("outer", a.device(), b.device());
  return unsqueeze(a, 1) * b;
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& axes_a, const Dims& axes_b) {
  if (const Autocasting on; on) return tensordot(on.narrow(a), on.narrow(b), axes_a, axes_b);
  check_pair("tensordot", a, b);
  const AxisSet summed_a("tensordot", axes_a, a.rank()), summed_b("tensordot", axes_b, b.rank());
  bool fits = axes_a.rank() == axes_b.rank();
  for (int i = 0; fits && i < axes_a.rank(); ++i) fits = a.size(axes_a[i]) == b.size(axes_b[i]);
  if (!fits) {
    raise<ShapeError>("[tensordot] axes {} of {} and {} of {} must be of equal sizes, pair by pair",
                      axes_a, a.shape(), axes_b, b.shape());
  }
  // a to [free axes, summed axes], b to [summed axes, free axes].
  Dims order_a, order_b = axes_b;
  Shape shape;
  int64_t free_a = 1, free_b = 1;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (summed_a[axis]) continue;
    order_a.push_back(axis);
    shape.push_back(a.shape()[axis]);
    free_a *= a.shape()[axis];
  }
  for (int64_t axis : axes_a) order_a.push_back(axis);
  for (int axis = 0; axis < b.rank(); ++axis) {
    if (summed_b[axis]) continue;
    order_b.push_back(axis);
    shape.push_back(b.shape()[axis]);
    free_b *= b.shape()[axis];
  }
  int64_t summed = 1;
  for (int64_t axis : axes_a) summed *= a.size(axis);
  const Tensor left = reshape(permute(a, order_a), {free_a, summed});
  const Tensor right = reshape(permute(b, order_b), {summed, free_b});
  return reshape(recorded_product("tensordot", left, right), shape);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  if (const Autocasting on; on)
    return linear(on.narrow(x), on.narrow(weight), on.narrow(bias).get());
  check_pair("linear", x, weight);
  if (weight.rank() != 2 || x.rank() < 1 || x.size(-1) != weight.shape()[1]) {
    raise<ShapeError>("[linear] input {} must end in the {} features of weight {}", x.shape(),
                      weight.rank() == 2 ? weight.shape()[1] : -1, weight.shape());
  }
  if (x.rank() != 2) {
    Shape shape = x.shape();
    shape[x.rank() - 1] = weight.shape()[0];
    Shape rows = x.shape();
    rows.erase(x.rank() - 1);
    return reshape(linear(reshape(x, {numel(rows), x.size(-1)}), weight, bias), shape);
  }
  if (bias) {
    check_pair("linear", weight, *bias);
    if (bias->shape() != Shape{weight.shape()[0]}) {
      raise<ShapeError>("[linear] bias must be [{}] for weight {}, got {}", weight.shape()[0],
                        weight.shape(), bias->shape());
    }
  }
  const Tensor out = product(x, view_of(weight, weight.layout().transposed(0, 1)));  // [n, out]
  if (bias) {
    const Tensor rows = view_of(*bias, bias->layout().expanded(out.shape()));
    backend(out).binary(Binary::add, out, rows, out);
  }
  // The bias comes before the weight: its gradient is quick to compute and can be sent first.
  return record(
      "linear", out, inputs(x, bias, weight),
      [x = Saved(x), weight = Saved(weight)](const Tensor& grad, Wanted wanted) {  // [n, out]
        return gradients(wanted[0] ? input_grad(grad, weight.get()) : Tensor(),    // [n, in]
                         wanted[1] ? sum(grad, {0}) : Tensor(),                    // [out]
                         wanted[2] ? weight_grad(grad, x.get()) : Tensor());       // [out, in]
      });
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor* bias) {
  check_pair("bilinear", a, b);
  check_pair("bilinear", a, weight);
  const bool fits = weight.rank() == 3 && a.rank() > 0 && a.rank() == b.rank() &&
                    leading(a.shape(), a.rank() - 1) == leading(b.shape(), b.rank() - 1) &&
                    a.size(-1) == weight.shape()[1] && b.size(-1) == weight.shape()[2];
  if (!fits) {
    raise<ShapeError>(
        "[bilinear] takes [..., m], [..., n] and a weight [out, m, n], got {}, {} and {}",
        a.shape(), b.shape(), weight.shape());
  }
  const int64_t out = weight.shape()[0], m = weight.shape()[1], n = weight.shape()[2];
  if (bias) {
    check_pair("bilinear", a, *bias);
    if (bias->shape() != Shape{out}) {
      raise<ShapeError>("[bilinear] bias must be [{}] for weight {}, got {}", out, weight.shape(),
                        bias->shape());
    }
  }
  Shape shape = leading(a.shape(), a.rank() - 1);
  const int64_t rows = numel(shape);
  shape.push_back(out);
  const Tensor matrices = reshape(transpose(weight, 0, 1), {m, out * n});
  const Tensor of_a = recorded_product("bilinear", reshape(a, {rows, m}), matrices);
  const Tensor y = reshape(
      recorded_product("bilinear", reshape(of_a, {rows, out, n}), reshape(b, {rows, n, 1})), shape);
  return bias ? y + *bias : y;
}

}  // namespace capstan
