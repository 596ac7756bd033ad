// Implements sync_batch_norm().
//
// Each rank tells of each channel its number of values n, their mean m and their summed squared
// distances d from it. These add up over ranks as sums do, once distances are taken from 0:
//
//   N = sum n     S = sum n m     Q = sum (d + n m^2)     mean = S / N     variance = Q / N -
//   mean^2
//
// The last difference loses digits where the mean is large beside the deviation. It is taken in
// float64, of [channels] numbers only; the distances d, of which there are many, are taken from the
// rank's own mean, where nothing is lost (Chan, Golub, LeVeque, "Updating formulae and a pairwise
// algorithm for computing sample variances", 1979).
//
// All of it is made of recorded operations, the all-reduce included, so backward is nothing to
// write: the gradient of an all-reduce is the all-reduce of the gradients.
#include "distributed/sync_batch_norm.h"

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/raise.h"
#include "distributed/differentiable.h"
#include "nn/batch_norm.h"

namespace capstan::distributed {
namespace {

void check(const Tensor& x, const Tensor* weight, const Tensor* bias, double epsilon) {
  if (!is_floating(x.dtype())) wrong_dtype("sync_batch_norm", "a floating point dtype", x.dtype());
  if (x.rank() < 2) {
    raise<ShapeError>("[sync_batch_norm] takes [n, channels, ...], got {}", x.shape());
  }
  if (!(epsilon >= 0)) {
    raise<ValueError>("[sync_batch_norm] epsilon must not be below 0, got {}", epsilon);
  }
  for (const Tensor* factor : {weight, bias}) {
    if (!factor) continue;
    if (factor->shape() != Shape{x.size(1)}) {
      raise<ShapeError>("[sync_batch_norm] weight and bias must be [{}] for input {}, got {}",
                        x.size(1), x.shape(), factor->shape());
    }
    if (factor->dtype() != x.dtype()) {
      raise<DtypeError>("[sync_batch_norm] dtypes must be equal, got {} and {}", x.dtype(),
                        factor->dtype());
    }
  }
}

}  // namespace

Tensor sync_batch_norm(const Tensor& x, Communicator& communicator, const Tensor* weight,
                       const Tensor* bias, double epsilon, BatchStatistics* seen) {
  if (const Autocasting on; on)
    return sync_batch_norm(on.wide(x), communicator, on.wide(weight).get(), on.wide(bias).get(),
                           epsilon, seen);
  check(x, weight, bias, epsilon);
  const int64_t channels = x.size(1), n = channels > 0 ? x.numel() / channels : 0;
  Dims others{0};  // all axes but the channels'
  for (int axis = 2; axis < x.rank(); ++axis) others.push_back(axis);
  Shape aligned = Dims::filled(x.rank() - 1, 1);  // a number a channel, to be broadcast
  aligned[0] = channels;
  const auto in_float64 = [](const Tensor& t) { return cast(t, Dtype::float64); };
  const Tensor wide = cast(x, promote(x.dtype(), Dtype::float32));

  const Tensor m = sum(wide, others) / static_cast<double>(std::max<int64_t>(n, 1));
  const Tensor d = in_float64(sum(square(wide - reshape(m, aligned)), others));
  const Tensor m64 = in_float64(m), count = full({1}, n, {Dtype::float64, x.device()});
  const Tensor sums = differentiable::all_reduce(
      cat({m64 * static_cast<double>(n), d + square(m64) * static_cast<double>(n), count}),
      communicator, "batch statistics");
  const auto total = slice(sums, 0, 2 * channels, 2 * channels + 1).item<double>();
  if (total == 1) {
    raise<ShapeError>(
        "[sync_batch_norm] needs more than one value a channel in training, over all ranks");
  }
  const double inverse = total > 0 ? 1 / total : 0;
  const Tensor mean = slice(sums, 0, 0, channels) * inverse;
  const Tensor variance =
      maximum(slice(sums, 0, channels, 2 * channels) * inverse - square(mean), zeros_like(mean));
  if (seen) {
    *seen = {detach(cast(mean, wide.dtype())), detach(cast(variance, wide.dtype())),
             static_cast<int64_t>(total)};
  }
  const auto beside_x = [&](const Tensor& t) { return reshape(cast(t, wide.dtype()), aligned); };
  Tensor y = cast((wide - beside_x(mean)) * beside_x(rsqrt(variance + epsilon)), x.dtype());
  if (weight) y = y * reshape(*weight, aligned);
  if (bias) y = y + reshape(*bias, aligned);
  return y;
}

int sync_batch_norm(nn::Module& model, Communicator& communicator) {
  int converted = 0;
  for (const auto& [_, module] : model.modules()) {
    auto* layer = dynamic_cast<nn::BatchNorm*>(module);
    if (!layer) continue;
    layer->normalize_batch = [&communicator](const Tensor& x, const Tensor* weight,
                                             const Tensor* bias, double epsilon,
                                             BatchStatistics* seen) {
      return sync_batch_norm(x, communicator, weight, bias, epsilon, seen);
    };
    layer->running_mean.policy = layer->running_var.policy = nn::BufferPolicy::replicated;
    ++converted;
  }
  return converted;
}

}  // namespace capstan::distributed
