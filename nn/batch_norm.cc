#include "nn/batch_norm.h"

#include "autograd/elementwise.h"
#include "autograd/in_place.h"
#include "autograd/normalization.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan::nn {

namespace {

/// running = (1 - momentum) running + momentum seen, in place.
void move_towards(const Tensor& running, const Tensor& seen, double momentum) {
  assign(running, running * (1 - momentum) + seen * momentum);
}

}  // namespace

BatchNorm::BatchNorm(int64_t channels, BatchNormOptions options)
    : options(options),
      running_mean(zeros({channels}), BufferPolicy::averaged),
      running_var(ones({channels}), BufferPolicy::averaged) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    raise<ValueError>("[batch_norm] momentum must be in [0, 1], got {}", options.momentum);
  }
  if (!options.affine) return;
  weight.emplace(ones({channels}));
  bias.emplace(zeros({channels}));
}

Tensor BatchNorm::normalize(const char* shapes, bool fits, const Tensor& x) {
  const int64_t channels = running_mean.numel();
  if (!fits || x.size(1) != channels) {
    raise<ShapeError>("[batch_norm] takes {} of {} channels, got {}", shapes, channels, x.shape());
  }
  const Tensor* const w = weight ? &*weight : nullptr;
  const Tensor* const b = bias ? &*bias : nullptr;
  if (training()) {
    BatchStatistics seen;
    const Tensor y = normalize_batch(x, w, b, options.epsilon, &seen);
    if (seen.n == 0) return y;  // no samples, nothing learned
    no_grad([&] {
      const double n = static_cast<double>(seen.n);
      move_towards(running_mean, seen.mean, options.momentum);
      move_towards(running_var, seen.variance * (n / (n - 1)), options.momentum);
    });
    return y;
  }
  // y = x scale + shift, with both worked out for the channels alone.
  Tensor scale = rsqrt(running_var + options.epsilon);
  if (w) scale = scale * *w;
  Tensor shift = -running_mean * scale;
  if (b) shift = shift + *b;
  Shape aligned = Dims::filled(x.rank() - 1, 1);
  aligned[0] = channels;
  return cast(x * reshape(scale, aligned) + reshape(shift, aligned), x.dtype());
}

}  // namespace capstan::nn
