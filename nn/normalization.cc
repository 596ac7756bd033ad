#include "nn/normalization.h"

#include "autograd/normalization.h"
#include "core/raise.h"

namespace capstan::nn {

namespace {
const Tensor* or_null(const std::optional<Parameter>& parameter) {
  return parameter ? &*parameter : nullptr;
}
}  // namespace

LayerNorm::LayerNorm(const Shape& shape, NormOptions options)
    : shape(shape), epsilon(options.epsilon) {
  if (!options.affine) return;
  weight.emplace(ones(shape));
  bias.emplace(zeros(shape));
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, shape, or_null(weight), or_null(bias), epsilon);
}

RMSNorm::RMSNorm(const Shape& shape, NormOptions options) : shape(shape), epsilon(options.epsilon) {
  if (options.affine) weight.emplace(ones(shape));
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, shape, or_null(weight), epsilon); }

GroupNorm::GroupNorm(int64_t groups, int64_t channels, NormOptions options)
    : groups(groups), epsilon(options.epsilon) {
  if (groups < 1 || channels % groups != 0) {
    raise<ValueError>("[group_norm] {} channels cannot be cut into {} equal groups", channels,
                      groups);
  }
  if (!options.affine) return;
  weight.emplace(ones({channels}));
  bias.emplace(zeros({channels}));
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, groups, or_null(weight), or_null(bias), epsilon);
}

InstanceNorm::InstanceNorm(int64_t channels, NormOptions options) : epsilon(options.epsilon) {
  if (!options.affine) return;
  weight.emplace(ones({channels}));
  bias.emplace(zeros({channels}));
}

Tensor InstanceNorm::forward(const Tensor& x) {
  return instance_norm(x, or_null(weight), or_null(bias), epsilon);
}

}  // namespace capstan::nn
