// Defines Sequential, a chain of layers.
#pragma once

#include <memory>

#include "nn/module.h"

namespace capstan::nn {

/// Feeds a tensor through its layers in order; they are named "0", "1", ...
///
///   nn::Sequential net{nn::Linear(784, 512), nn::ReLU{}, nn::Linear(512, 10)};
class Sequential : public Module {
 public:
  template <class... Layers>
  requires(std::is_base_of_v<Module, Layers>&&...) explicit Sequential(Layers... layers) {
    (add(std::move(layers)), ...);
  }
  /// A copy has its own layers with the same parameters, like any module.
  Sequential(const Sequential& other) : Module(other) { *this = other; }
  Sequential& operator=(const Sequential& other);

  template <class Layer>
  void add(Layer layer) {
    layers_.push_back(std::make_unique<Slot<Layer>>(std::move(layer)));
  }
  size_t size() const { return layers_.size(); }
  /// Layer `i`. Throws ValueError out of range.
  Module& operator[](size_t i);

  const char* type_name() const override { return "Sequential"; }
  void visit_members(MemberVisitor& visitor) override;
  Sequential clone() const;

  Tensor operator()(const Tensor& x) {
    return call([this](const Tensor& x) { return forward(x); }, x);
  }
  Tensor forward(const Tensor& x);

 private:
  /// A layer of any type behind one interface.
  struct AnySlot {
    virtual ~AnySlot() = default;
    virtual Module& module() = 0;
    virtual Tensor run(const Tensor& x) = 0;
    virtual std::unique_ptr<AnySlot> copy() const = 0;
  };
  template <class Layer>
  struct Slot final : AnySlot {
    explicit Slot(Layer layer) : layer(std::move(layer)) {}
    Module& module() override { return layer; }
    Tensor run(const Tensor& x) override { return layer(x); }
    std::unique_ptr<AnySlot> copy() const override { return std::make_unique<Slot>(layer); }
    Layer layer;
  };

  std::vector<std::unique_ptr<AnySlot>> layers_;
};

}  // namespace capstan::nn
