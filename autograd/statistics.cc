#include "autograd/statistics.h"

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_floating(const char* operation, const Tensor& x) {
  check_floating(operation, x.dtype());
}

Tensor variance(const char* operation, const Tensor& x, const Dims& axes, double correction,
                bool keepdim) {
  check_floating(operation, x);
  const Shape kept = reduced_shape(operation, x.shape(), axes, true);
  const double count = numel(kept) == 0 ? 0 : static_cast<double>(x.numel()) / numel(kept);
  const double divisor = std::max(0.0, count - correction);
  const auto from_mean = [axes](const Tensor& x) { return x - mean(x, axes, true); };
  const Tensor y = no_grad([&] { return sum(square(from_mean(x)), axes, keepdim) / divisor; });
  return record(operation, y, inputs(x), [=, x = Saved(x)](const Tensor& grad) {
    return gradients(reshape(grad, kept) * from_mean(x.get()) * (2 / divisor));
  });
}

/// The 2-norm, whose general formula has no gradient at 0.
Tensor euclidean_norm(const Tensor& x, const Dims& axes, bool keepdim) {
  const Shape kept = reduced_shape("norm", x.shape(), axes, true);
  const Tensor y = no_grad([&] { return sqrt(sum(square(x), axes, keepdim)); });
  return record("norm", y, inputs(x),
                [kept, x = Saved(x), y = Saved::output(y)](const Tensor& grad) {
                  const Tensor length = reshape(y.get(), kept), zero = scalar_beside(length, 0);
                  const Tensor share = reshape(grad, kept) / length;
                  return gradients(x.get() * where(equal(length, zero), zero, share));
                });
}

}  // namespace

Tensor var(const Tensor& x, const Dims& axes, double correction, bool keepdim) {
  if (const Autocasting on; on) return var(on.wide(x), axes, correction, keepdim);
  if (is_half(x.dtype())) {
    return cast(var(in_compute_dtype(x), axes, correction, keepdim), x.dtype());
  }
  return variance("var", x, axes, correction, keepdim);
}

Tensor stddev(const Tensor& x, const Dims& axes, double correction, bool keepdim) {
  if (const Autocasting on; on) return stddev(on.wide(x), axes, correction, keepdim);
  if (is_half(x.dtype())) {
    return cast(stddev(in_compute_dtype(x), axes, correction, keepdim), x.dtype());
  }
  return sqrt(variance("stddev", x, axes, correction, keepdim));
}

Tensor norm(const Tensor& x, double p, const Dims& axes, bool keepdim) {
  if (const Autocasting on; on) return norm(on.wide(x), p, axes, keepdim);
  if (is_half(x.dtype())) return cast(norm(in_compute_dtype(x), p, axes, keepdim), x.dtype());
  check_floating("norm", x);
  if (!(p > 0)) raise<ValueError>("[norm] p must be above 0, got {}", p);
  if (p == 2) return euclidean_norm(x, axes, keepdim);
  reduced_shape("norm", x.shape(), axes, keepdim);  // checks the axes
  if (p == 1) return sum(absolute(x), axes, keepdim);
  if (std::isinf(p)) return max(absolute(x), axes, keepdim);
  return power(sum(power(absolute(x), p), axes, keepdim), 1 / p);
}

Tensor logsumexp(const Tensor& x, const Dims& axes, bool keepdim) {
  if (const Autocasting on; on) return logsumexp(on.wide(x), axes, keepdim);
  if (is_half(x.dtype())) return cast(logsumexp(in_compute_dtype(x), axes, keepdim), x.dtype());
  check_floating("logsumexp", x);
  const Shape kept = reduced_shape("logsumexp", x.shape(), axes, true);
  const Shape shape = reduced_shape("logsumexp", x.shape(), axes, keepdim);
  // The largest element, or 0 where that is infinite or there is none.
  const auto shift_of = [=](const Tensor& x) {
    if (x.numel() == 0) return zeros(kept, {x.dtype(), x.device()});
    const Tensor most = max(detach(x), axes, true);
    return where(isfinite(most), most, scalar_beside(most, 0));
  };
  const Tensor out = no_grad([&] {
    const Tensor shift = shift_of(x);
    return reshape(log(sum(exp(x - shift), axes, true)) + shift, shape);
  });
  return record("logsumexp", out, inputs(x), [=, x = Saved(x)](const Tensor& grad) {
    // The softmax, from x again: relative to the result, a large x would lose its digits.
    const Tensor value = x.get(), parts = exp(value - shift_of(value));
    return gradients(reshape(grad, kept) * (parts / sum(parts, axes, true)));
  });
}

}  // namespace capstan
