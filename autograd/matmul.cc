#include "autograd/matmul.h"

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_pair(const char* operation, const Tensor& a, const Tensor& b) {
  if (!is_floating(a.dtype())) wrong_dtype(operation, "float32 or float64", a.dtype());
  if (a.dtype() != b.dtype()) {
    raise<DtypeError>("[{}] dtypes must be equal, got {} and {}", operation, a.dtype(), b.dtype());
  }
  check_same_device(operation, a.device(), b.device());
}

/// `x` if the kernel can read it (one axis dense, the other stepping over it), else a dense copy.
Tensor as_matrix(const Tensor& x) {
  const Strides& step = x.strides();
  const bool rows = step[1] == 1 && step[0] >= x.shape()[1];
  const bool columns = step[0] == 1 && step[1] >= x.shape()[0];
  return rows || columns ? x : dense_copy(x);
}

/// a [m, k] times b [k, n], off the tape.
Tensor product(const Tensor& a, const Tensor& b) {
  Tensor out = empty({a.shape()[0], b.shape()[1]}, {a.dtype(), a.device()});
  backend(out).matmul(as_matrix(a), as_matrix(b), out);
  return out;
}

/// grad [n, out] transposed times x [n, in]: the gradient of a linear layer's weight.
Tensor weight_grad(const Tensor& grad, const Tensor& x) {
  return product(view_of(grad, grad.layout().transposed(0, 1)), x);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_pair("matmul", a, b);
  if (a.rank() != 2 || b.rank() != 2 || a.shape()[1] != b.shape()[0]) {
    raise<ShapeError>("[matmul] takes [m, k] and [k, n], got {} and {}", a.shape(), b.shape());
  }
  return record("matmul", product(a, b), inputs(a, b),
                [a = Saved(a), b = Saved(b)](const Tensor& grad, Wanted wanted) {  // grad [m, n]
                  return gradients(
                      wanted[0] ? matmul(grad, transpose(b.get(), 0, 1)) : Tensor(),   // [m, k]
                      wanted[1] ? matmul(transpose(a.get(), 0, 1), grad) : Tensor());  // [k, n]
                });
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias) {
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
        return gradients(wanted[0] ? product(grad, weight.get()) : Tensor(),       // [n, in]
                         wanted[1] ? sum(grad, {0}) : Tensor(),                    // [out]
                         wanted[2] ? weight_grad(grad, x.get()) : Tensor());       // [out, in]
      });
}

}  // namespace capstan
