#include "models/classifier.h"

#include "autograd/elementwise.h"
#include "autograd/views.h"

namespace capstan::models {

Classifier Classifier::recorded(const std::function<Classifier()>& make) {
  const auto recipe = std::make_shared<Recipe>();
  Classifier model = recipe->record(make);
  model.recipe_ = recipe;
  return model;
}

Tensor Classifier::operator()(const Tensor& inputs) const {
  const Autocast guard(autocast_);
  return logits_of(forward_(prepare(inputs)));
}

Tensor Classifier::prepare(const Tensor& inputs) const {
  return is_floating(inputs.dtype()) ? cast(inputs, dtype_) : inputs;
}

Tensor Classifier::logits_of(const Tensor& outputs) const {
  return cast(flatten(outputs, 0, -2), compute_dtype(dtype_));
}

void Classifier::to(Dtype dtype) {
  if (recipe_) {
    recipe_->record([&] { module_->to(dtype); });
  } else {
    module_->to(dtype);
  }
  dtype_ = dtype;
}

void add_elements(Sha256& sum, const Tensor& tensor) {
  const Tensor dense = tensor.is_contiguous() ? tensor : dense_copy(tensor);
  sum.update({static_cast<const std::byte*>(dense.address()), static_cast<size_t>(dense.bytes())});
}

std::string weights_sha256(nn::Module& module) {
  Sha256 sum;
  for (const auto& [_, parameter] : module.parameters()) add_elements(sum, parameter);
  return sum.hex();
}

}  // namespace capstan::models
