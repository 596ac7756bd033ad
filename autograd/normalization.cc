#include "autograd/normalization.h"

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

/// The gradient of normalized() made of operations, so that it has a gradient itself.
Tensor recorded_grad(const Tensor& grad, const Tensor& x, bool center, double epsilon) {
  const auto mean_of = [](const Tensor& t) { return mean(t, {0, 2}, true); };
  const Tensor centered = center ? x - mean_of(x) : x;
  const Tensor scale = rsqrt(mean_of(square(centered)) + epsilon), y = centered * scale;
  const Tensor g = center ? grad - mean_of(grad) : grad;
  return scale * (g - y * mean_of(grad * y));
}

/// x [outer, groups, inner] with every group normalised; `stats` receives [groups, 2].
Tensor normalized(const char* operation, const Tensor& x, bool center, double epsilon,
                  Tensor& stats) {
  const Tensor dense = contiguous(x), out = empty_like(dense);
  stats = empty({x.shape()[1], 2}, {compute_dtype(x.dtype()), x.device()});
  backend(out).normalize(detach(dense), center, epsilon, out, stats);
  return record(operation, out, inputs(dense),
                [=, x = Saved(dense), stats = Saved(stats)](const Tensor& grad) {
                  if (grad_enabled()) {
                    return gradients(recorded_grad(grad, x.get(), center, epsilon));
                  }
                  Tensor x_grad = empty_like(grad);
                  backend(grad).normalize_grad(contiguous(grad), x.get(), stats.get(), center,
                                               epsilon, x_grad);
                  return gradients(std::move(x_grad));
                });
}

void check(const char* operation, const Tensor& x, double epsilon) {
  check_floating(operation, x.dtype());
  if (!(epsilon >= 0)) {
    raise<ValueError>("[{}] epsilon must not be below 0, got {}", operation, epsilon);
  }
}

void check_factor(const char* operation, const char* name, const Tensor& x, const Tensor* factor,
                  const Shape& shape) {
  if (!factor) return;
  if (factor->shape() != shape) {
    raise<ShapeError>("[{}] {} must be {} for input {}, got {}", operation, name, shape, x.shape(),
                      factor->shape());
  }
  check_alike(operation, x, *factor);
}

/// y * weight + bias, which have x's last axes.
Tensor scaled(Tensor y, const Tensor* weight, const Tensor* bias) {
  if (weight) y = y * *weight;
  if (bias) y = y + *bias;
  return y;
}

/// The number of elements in x's last axes, of sizes `shape`.
int64_t check_last_axes(const char* operation, const Tensor& x, const Shape& shape) {
  const int first = x.rank() - shape.rank();
  if (shape.empty() || first < 0 ||
      Dims(std::span(x.shape().begin() + first, x.shape().end())) != shape) {
    raise<ShapeError>("[{}] the input must end in {}, got {}", operation, shape, x.shape());
  }
  return numel(shape);
}

/// x [n, channels, ...] seen as [outer, groups, inner], normalised, with a weight a channel.
Tensor normalize_channels(const char* operation, const Tensor& x, int64_t outer, int64_t groups,
                          const Tensor* weight, const Tensor* bias, double epsilon, Tensor& stats) {
  const int64_t channels = x.shape()[1];
  for (const auto& [name, factor] : {std::pair{"weight", weight}, std::pair{"bias", bias}}) {
    check_factor(operation, name, x, factor, {channels});
  }
  const int64_t parts = std::max<int64_t>(1, outer * groups);
  const Tensor y = reshape(
      normalized(operation, reshape(x, {outer, groups, x.numel() / parts}), true, epsilon, stats),
      x.shape());
  Shape aligned = Dims::filled(x.rank() - 1, 1);
  aligned[0] = channels;
  Tensor w, b;
  if (weight) w = reshape(*weight, aligned);
  if (bias) b = reshape(*bias, aligned);
  return scaled(y, weight ? &w : nullptr, bias ? &b : nullptr);
}

void check_channels(const char* operation, const Tensor& x, double epsilon, int least_rank) {
  check(operation, x, epsilon);
  if (x.rank() < least_rank) {
    raise<ShapeError>("[{}] takes [n, channels{}, ...], got {}", operation,
                      least_rank > 2 ? ", size" : "", x.shape());
  }
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor* weight, const Tensor* bias,
                  double epsilon) {
  if (const Autocasting on; on)
    return layer_norm(on.wide(x), shape, on.wide(weight).get(), on.wide(bias).get(), epsilon);
  check("layer_norm", x, epsilon);
  const int64_t size = check_last_axes("layer_norm", x, shape);
  check_factor("layer_norm", "weight", x, weight, shape);
  check_factor("layer_norm", "bias", x, bias, shape);
  const int64_t groups = size ? x.numel() / size : 0;
  Tensor stats;
  const Tensor rows = reshape(x, {1, groups, size});
  return scaled(reshape(normalized("layer_norm", rows, true, epsilon, stats), x.shape()), weight,
                bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor* weight, double epsilon) {
  if (const Autocasting on; on) return rms_norm(on.wide(x), shape, on.wide(weight).get(), epsilon);
  check("rms_norm", x, epsilon);
  const int64_t size = check_last_axes("rms_norm", x, shape);
  check_factor("rms_norm", "weight", x, weight, shape);
  const int64_t groups = size ? x.numel() / size : 0;
  Tensor stats;
  const Tensor rows = reshape(x, {1, groups, size});
  return scaled(reshape(normalized("rms_norm", rows, false, epsilon, stats), x.shape()), weight,
                nullptr);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor* weight, const Tensor* bias,
                  double epsilon) {
  if (const Autocasting on; on)
    return group_norm(on.wide(x), groups, on.wide(weight).get(), on.wide(bias).get(), epsilon);
  check_channels("group_norm", x, epsilon, 2);
  if (groups < 1 || x.shape()[1] % groups != 0) {
    raise<ShapeError>("[group_norm] {} channels cannot be cut into {} equal groups", x.shape()[1],
                      groups);
  }
  Tensor stats;
  return normalize_channels("group_norm", x, 1, x.shape()[0] * groups, weight, bias, epsilon,
                            stats);
}

Tensor instance_norm(const Tensor& x, const Tensor* weight, const Tensor* bias, double epsilon) {
  if (const Autocasting on; on)
    return instance_norm(on.wide(x), on.wide(weight).get(), on.wide(bias).get(), epsilon);
  check_channels("instance_norm", x, epsilon, 3);
  Tensor stats;
  return normalize_channels("instance_norm", x, 1, x.shape()[0] * x.shape()[1], weight, bias,
                            epsilon, stats);
}

Tensor batch_norm(const Tensor& x, const Tensor* weight, const Tensor* bias, double epsilon,
                  BatchStatistics* seen) {
  if (const Autocasting on; on)
    return batch_norm(on.wide(x), on.wide(weight).get(), on.wide(bias).get(), epsilon, seen);
  check_channels("batch_norm", x, epsilon, 2);
  const int64_t channels = x.shape()[1];
  if (x.numel() == channels && x.numel() > 0) {
    raise<ShapeError>("[batch_norm] needs more than one value a channel in training, got {}",
                      x.shape());
  }
  Tensor stats;
  const Tensor y =
      normalize_channels("batch_norm", x, x.shape()[0], channels, weight, bias, epsilon, stats);
  const int64_t n = channels > 0 ? x.numel() / channels : 0;
  if (seen) *seen = {select(stats, 1, 0), select(stats, 1, 1), n};
  return y;
}

Tensor weight_norm(const Tensor& v, const Tensor& length) {
  check_floating("weight_norm", v.dtype());
  if (broadcast("weight_norm", v.shape(), length.shape()) != v.shape()) {
    raise<ShapeError>("[weight_norm] lengths {} do not broadcast to the weight {}", length.shape(),
                      v.shape());
  }
  check_alike("weight_norm", v, length);
  const Tensor wide = in_compute_dtype(v), lengths = sqrt(sum_to(square(wide), length.shape()));
  return cast(wide * (in_compute_dtype(length) / lengths), v.dtype());
}

}  // namespace capstan
