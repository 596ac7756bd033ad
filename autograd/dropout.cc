#include "autograd/dropout.h"

#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// Linear in x, so that its gradient is itself.
Tensor apply(const Tensor& x, double p, uint64_t seed, uint64_t offset, const Layout& place) {
  const Tensor out = empty_like(x);
  backend(out).dropout(seed, offset, place, p, contiguous(detach(x)), out);
  return record("dropout", out, inputs(x),
                [=](const Tensor& grad) { return gradients(apply(grad, p, seed, offset, place)); });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator) {
  return dropout(x, p, part_of(x.shape(), {}), generator);
}

Tensor dropout(const Tensor& x, double p, const Part& part, Generator& generator) {
  if (!(p >= 0 && p < 1)) raise<ValueError>("[dropout] p must be in [0, 1), got {}", p);
  check_floating("dropout", x.dtype());
  if (p == 0) return x;
  if (numel(part.layout.shape) != x.numel()) {
    raise<ShapeError>("[dropout] the part {} is not one of {}", part.layout.shape, x.shape());
  }
  const uint64_t seed = generator.seed(), offset = generator.advance(part.whole);
  return apply(x, p, seed, offset, part.layout);
}

}  // namespace capstan
