#include "autograd/jacobian.h"

#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// x on the tape: itself, or a leaf in its place.
Tensor variable(const Tensor& x) { return x.requires_grad() ? x : require_grad(detach(x)); }

/// jacobian() of what is computed already.
Tensor rows_of(const Tensor& y, const Tensor& x, const JacobianOptions& options) {
  Shape shape = y.shape();
  for (int64_t size : x.shape()) shape.push_back(size);
  if (!y.requires_grad() || y.numel() == 0) return zeros(shape, {x.dtype(), x.device()});
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Tensor seed = zeros({y.numel()}, {y.dtype(), y.device()});
    fill_elements(view_of(seed, seed.layout().selected(0, i)), 1);
    rows.push_back(grad(y, x,
                        {.seeds = {view_of(seed, Layout::dense(y.shape()))},
                         .retain_graph = true,
                         .create_graph = options.create_graph,
                         .unreached = Unreached::zeros}));
  }
  return reshape(stack(rows), shape);
}

}  // namespace

Tensor jacobian(const TensorFunction& f, const Tensor& x, const JacobianOptions& options) {
  GradMode recording(true);
  const Tensor at = variable(x);
  return rows_of(f(at), at, options);
}

Tensor hessian(const TensorFunction& f, const Tensor& x, const JacobianOptions& options) {
  GradMode recording(true);
  const Tensor at = variable(x), y = f(at);
  if (y.numel() != 1) {
    raise<ShapeError>("[hessian] takes a function with one element as its result, got {}",
                      y.shape());
  }
  if (!y.requires_grad()) return rows_of(zeros_like(at), at, options);
  const Tensor slope = grad(y, at, {.create_graph = true, .unreached = Unreached::zeros});
  return rows_of(slope, at, options);
}

}  // namespace capstan
