// Implements the collectives on the tape: the plain ones as functions, then each with its gradient.
#include "distributed/differentiable.h"

#include "autograd/record.h"
#include "core/raise.h"

namespace capstan::distributed::differentiable {
namespace {

// Uninitialised tensors like x, with axis 0 `times` as long, or one of `parts` equal parts of it.
Tensor longer(const Tensor& x, int times) {
  Shape shape = x.shape();
  if (shape.rank() == 0) raise<ShapeError>("[all_gather] a scalar has no axis to join along");
  shape[0] *= times;
  return empty(shape, {x.dtype(), x.device()});
}

Tensor part(const char* operation, const Tensor& x, int parts) {
  Shape shape = x.shape();
  if (shape.rank() == 0 || shape[0] % parts != 0) {
    raise<ShapeError>("[{}] axis 0 must be a multiple of the {} ranks, got {}", operation, parts,
                      shape);
  }
  shape[0] /= parts;
  return empty(shape, {x.dtype(), x.device()});
}

// The plain collectives as functions.
Tensor summed(const Tensor& x, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.all_reduce(y, Reduce::sum, tag).wait();
  return y;
}

Tensor summed_at(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.reduce(y, root, Reduce::sum, tag).wait();
  if (communicator.rank() != root) fill_elements(y, 0);
  return y;
}

Tensor copied(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.broadcast(y, root, tag).wait();
  return y;
}

Tensor gathered(const Tensor& x, Communicator& communicator, const std::string& tag) {
  const Tensor y = longer(x, communicator.size());
  communicator.all_gather(dense_copy(x), y, tag).wait();
  return y;
}

Tensor scattered(const Tensor& x, Communicator& communicator, const std::string& tag) {
  const Tensor y = part("reduce_scatter", x, communicator.size());
  communicator.reduce_scatter(dense_copy(x), y, Reduce::sum, tag).wait();
  return y;
}

Tensor exchanged(const Tensor& x, Communicator& communicator, const std::string& tag) {
  part("all_to_all", x, communicator.size());
  const Tensor y = empty_like(x);
  communicator.all_to_all(dense_copy(x), y, tag).wait();
  return y;
}

// Puts a collective on the tape whose gradient is `back` of the result's.
template <class F>
Tensor with_gradient(const char* operation, const Tensor& y, const Tensor& x, const F& back) {
  return record(operation, y, inputs(x),
                [back](const Tensor& grad) { return gradients(back(grad)); });
}

}  // namespace

Tensor all_reduce(const Tensor& x, Communicator& communicator, const std::string& tag) {
  return with_gradient("all_reduce", summed(x, communicator, tag), x,
                       [&communicator, tag = "gradient of " + tag](const Tensor& grad) {
                         return summed(grad, communicator, tag);
                       });
}

Tensor reduce(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  return with_gradient("reduce", summed_at(x, root, communicator, tag), x,
                       [&communicator, root, tag = "gradient of " + tag](const Tensor& grad) {
                         return copied(grad, root, communicator, tag);
                       });
}

Tensor broadcast(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  return with_gradient("broadcast", copied(x, root, communicator, tag), x,
                       [&communicator, root, tag = "gradient of " + tag](const Tensor& grad) {
                         return summed_at(grad, root, communicator, tag);
                       });
}

Tensor all_gather(const Tensor& x, Communicator& communicator, const std::string& tag) {
  return with_gradient("all_gather", gathered(x, communicator, tag), x,
                       [&communicator, tag = "gradient of " + tag](const Tensor& grad) {
                         return scattered(grad, communicator, tag);
                       });
}

Tensor reduce_scatter(const Tensor& x, Communicator& communicator, const std::string& tag) {
  return with_gradient("reduce_scatter", scattered(x, communicator, tag), x,
                       [&communicator, tag = "gradient of " + tag](const Tensor& grad) {
                         return gathered(grad, communicator, tag);
                       });
}

Tensor all_to_all(const Tensor& x, Communicator& communicator, const std::string& tag) {
  return with_gradient("all_to_all", exchanged(x, communicator, tag), x,
                       [&communicator, tag = "gradient of " + tag](const Tensor& grad) {
                         return exchanged(grad, communicator, tag);
                       });
}

}  // namespace capstan::distributed::differentiable
