#include "autograd/indexing.h"

#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

Tensor take_rows(const Tensor& x, const Tensor& indices) {
  if (indices.dtype() != Dtype::int64) wrong_dtype("take_rows", "int64 indices", indices.dtype());
  if (x.rank() == 0 || indices.rank() != 1) {
    raise<ShapeError>("[take_rows] takes rows [n, ...] and indices [m], got {} and {}", x.shape(),
                      indices.shape());
  }
  check_same_device("take_rows", x.device(), indices.device());
  const Tensor positions = contiguous(indices);
  if (indices.device().kind != Device::Kind::meta) {
    const int64_t* position = positions.data<int64_t>();
    for (int64_t i = 0; i < positions.numel(); ++i) {
      if (position[i] < 0 || position[i] >= x.shape()[0]) {
        raise<ValueError>("[take_rows] indices must be in [0, {}), got {} at position {}",
                          x.shape()[0], position[i], i);
      }
    }
  }
  Shape shape = x.shape();
  shape[0] = positions.numel();
  Tensor out = empty(shape, {x.dtype(), x.device()});
  backend(out).take_rows(contiguous(detach(x)), positions, out);
  return record("take_rows", out, inputs(x),
                [shape = x.shape(), positions = Saved(positions)](const Tensor& grad) {
                  Tensor x_grad = zeros(shape, {grad.dtype(), grad.device()});
                  backend(x_grad).add_rows(contiguous(grad), positions.get(), x_grad);
                  return gradients(std::move(x_grad));
                });
}

}  // namespace capstan
