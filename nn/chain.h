// Defines Layer and Chain: a model as a row of layers, each fed by the one before.
//
// A model that has such a form says so in one function, and computes by it, so that there is one
// source for the whole model and for parts of it, which pipelines deal out to ranks:
//
//   struct Net : nn::Module {
//     nn::Linear in{784, 512}, out{512, 10};
//     CAPSTAN_MODULE(Net, in, out)
//     nn::Layers layers() {
//       return {{"in", [this](const Tensor& x) { return relu(in(x)); }, {&in}},
//               {"out", [this](const Tensor& x) { return out(x); }, {&out}}};
//     }
//     Tensor forward(const Tensor& x) { return nn::forward(layers(), x); }
//   };
#pragma once

#include <functional>
#include <memory>

#include "nn/module.h"

namespace capstan::nn {

using Tensors = std::vector<Tensor>;

/// One of a chain's layers.
struct Layer {
  /// `run` maps a tensor to a tensor, or Tensors to Tensors where layers hand on several.
  template <class Run>
  Layer(std::string name, Run run, std::vector<Module*> modules)
      : name(std::move(name)), modules(std::move(modules)) {
    if constexpr (std::is_invocable_r_v<Tensors, Run&, const Tensors&>) {
      forward = std::move(run);
    } else {
      forward = [run = std::move(run)](const Tensors& x) { return Tensors{run(only(x))}; };
    }
  }

  std::string name;
  std::function<Tensors(const Tensors&)> forward;
  /// All that it uses, nulls aside. What several layers use is theirs together.
  std::vector<Module*> modules;

 private:
  static const Tensor& only(const Tensors& tensors);
};
using Layers = std::vector<Layer>;

/// Feeds `x` through the layers. Throws ValueError where a layer takes or gives more or fewer
/// tensors than the next one takes, or the last one gives not one.
Tensor forward(const Layers& layers, const Tensor& x);

/// A model of any type that has layers(). Refers to the model.
class Chain {
 public:
  template <class Model>
  explicit Chain(Model& model) : Chain(std::shared_ptr<Model>(std::shared_ptr<void>(), &model)) {}

  Module& model() const { return *model_; }
  const Layers& layers() const { return layers_; }

  /// A copy on Device::meta(), where a run gives the shapes that it makes and counts its costs. The
  /// chain owns its model; it takes no memory for numbers.
  Chain on_meta() const { return on_meta_(); }

 private:
  template <class Model>
  explicit Chain(std::shared_ptr<Model> model) : model_(model), layers_(model->layers()) {
    on_meta_ = [model = model.get()] {
      const auto twin = std::make_shared<Model>(*model);
      twin->to(Device::meta());
      return Chain(twin);
    };
  }

  std::shared_ptr<Module> model_;
  Layers layers_;
  std::function<Chain()> on_meta_;
};

}  // namespace capstan::nn
