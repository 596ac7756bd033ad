// Defines Classifier, a model whose type is known only when a program runs.
//
// Models are types, and code that knows its model needs none of this: training and evaluation do,
// which are the same for all models that give a label to an image, or to each place of a text.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "autograd/autocast.h"
#include "core/recipe.h"
#include "core/sha256.h"
#include "nn/chain.h"

namespace capstan::models {

/// A module, and how it is called.
class Classifier {
 public:
  template <class Model>
  explicit Classifier(std::unique_ptr<Model> model)
      : forward_([m = model.get()](const Tensor& inputs) { return (*m)(inputs); }) {
    if constexpr (requires { model->layers(); }) chain_.emplace(*model);
    module_ = std::move(model);
  }

  /// What make() returns, on meta, with the recipe for its numbers: a strategy makes those that its
  /// rank needs. It computes nothing before.
  static Classifier recorded(const std::function<Classifier()>& make);
  /// That recipe, or null.
  Recipe* recipe() const { return recipe_.get(); }

  /// Inputs [n, ...] to logits [labels, classes]: a row for each sample, or for each place of each
  /// sample. Floating inputs may have any dtype. Logits have the model's, or float32 where it
  /// computes in 16 bits, so that the loss keeps its digits.
  Tensor operator()(const Tensor& inputs) const;
  nn::Module& module() const { return *module_; }

  // The same in parts, for a model that runs in stages.

  /// The model as a row of layers; null if it is none.
  const nn::Chain* chain() const { return chain_ ? &*chain_ : nullptr; }
  /// What the model is given for these inputs.
  Tensor prepare(const Tensor& inputs) const;
  /// The logits, from what the model gives.
  Tensor logits_of(const Tensor& outputs) const;
  /// The dtype of products, if it is another than the model's.
  std::optional<Dtype> autocast_dtype() const { return autocast_; }

  /// Converts all parameters; inputs follow.
  void to(Dtype dtype);
  /// Computes products in bfloat16 from now on; see autograd/autocast.h.
  void autocast() { autocast_ = Dtype::bfloat16; }

 private:
  std::shared_ptr<Recipe> recipe_;
  std::function<Tensor(const Tensor&)> forward_;
  std::unique_ptr<nn::Module> module_;
  std::optional<nn::Chain> chain_;
  Dtype dtype_ = Dtype::float32;
  std::optional<Dtype> autocast_;
};

/// The elements of a tensor, in row-major order.
void add_elements(Sha256& sum, const Tensor& tensor);
/// SHA-256, in hexadecimal digits, over the elements of all parameters in the model's order: equal
/// models have equal ones.
std::string weights_sha256(nn::Module& module);

}  // namespace capstan::models
