#include "models/classifier.h"

#include "autograd/elementwise.h"
#include "autograd/views.h"
#include "core/sha256.h"

namespace capstan::models {

Tensor Classifier::operator()(const Tensor& inputs) const {
  const Autocast guard(autocast_);
  const Tensor logits = forward_(is_floating(inputs.dtype()) ? cast(inputs, dtype_) : inputs);
  return cast(flatten(logits, 0, -2), compute_dtype(dtype_));
}

void Classifier::to(Dtype dtype) {
  module_->to(dtype);
  dtype_ = dtype;
}

std::string weights_sha256(nn::Module& module) {
  Sha256 sum;
  for (const auto& [_, parameter] : module.parameters()) {
    const Tensor dense = parameter.is_contiguous() ? parameter : dense_copy(parameter);
    sum.update(
        {static_cast<const std::byte*>(dense.address()), static_cast<size_t>(dense.bytes())});
  }
  return sum.hex();
}

}  // namespace capstan::models
