// Defines ImageModel, a classifier of small grey images that is chosen by name when a program runs.
//
// Models are types, and code that knows its model needs none of this. To add a model here, add a
// line to make_image_model().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "nn/module.h"

namespace capstan::models {

/// A module, and how it is called.
class ImageModel {
 public:
  template <class Model>
  explicit ImageModel(std::unique_ptr<Model> model)
      : forward_([m = model.get()](const Tensor& images) { return (*m)(images); }),
        module_(std::move(model)) {}

  /// Images [n, 1, 28, 28] of any dtype to logits [n, 10] of the model's; of float32 where the
  /// model computes in 16 bits, so that the loss keeps its digits.
  Tensor operator()(const Tensor& images) const {
    const Autocast guard(autocast_);
    return cast(forward_(cast(images, dtype_)), compute_dtype(dtype_));
  }
  nn::Module& module() const { return *module_; }
  /// Converts all parameters; images follow.
  /// Computes products in bfloat16 from now on; see autograd/autocast.h.
  void autocast() { autocast_ = Dtype::bfloat16; }
  void to(Dtype dtype) {
    module_->to(dtype);
    dtype_ = dtype;
  }

 private:
  std::function<Tensor(const Tensor&)> forward_;
  std::unique_ptr<nn::Module> module_;
  Dtype dtype_ = Dtype::float32;
  std::optional<Dtype> autocast_;
};

/// "mlp" or "lenet", with weights drawn from the default generator. Throws ValueError for another
/// name.
ImageModel make_image_model(const std::string& name, double dropout = 0);

/// SHA-256, in hexadecimal digits, over the elements of all parameters in the model's order: equal
/// models have equal ones.
std::string weights_sha256(nn::Module& module);

}  // namespace capstan::models
