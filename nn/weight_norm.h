// Defines WeightNorm, which trains the direction and the length of a layer's weight apart
// (autograd/normalization.h).
//
//   nn::WeightNorm conv(nn::Conv2d(16, 32, 3));  // its parameters: weight_g, weight_v, bias
#pragma once

#include "autograd/normalization.h"
#include "nn/module.h"

namespace capstan::nn {

namespace detail {

/// Shows `visitor` the members of a layer with two parameters in the place of one.
class Replacing final : public MemberVisitor {
 public:
  Replacing(MemberVisitor& visitor, const Parameter& weight, Parameter& g, Parameter& v)
      : visitor_(visitor), weight_(weight), g_(g), v_(v) {}

  void parameter(const std::string& name, Parameter& parameter) override;
  void buffer(const std::string& name, Buffer& buffer) override { visitor_.buffer(name, buffer); }
  void module(const std::string& name, Module& module) override { visitor_.module(name, module); }

 private:
  MemberVisitor& visitor_;
  const Parameter& weight_;
  Parameter &g_, &v_;
};

/// The lengths of a weight's parts, one for each index of `axis` or one for all.
Tensor weight_lengths(const Tensor& weight, std::optional<int64_t> axis);

}  // namespace detail

/// Any layer with a Parameter `weight`, which becomes weight_v / |weight_v| * weight_g: a length
/// for each index of `axis`, or without an axis one for all. It starts as the layer was. `weight`
/// holds a tensor only while the layer runs. Throws ShapeError for an axis out of range.
template <class Layer>
struct WeightNorm : Layer {
  explicit WeightNorm(Layer layer, std::optional<int64_t> axis = 0)
      : Layer(std::move(layer)),
        weight_g(detail::weight_lengths(this->weight, axis)),
        weight_v(dense_copy(this->weight)) {
    set_weight({});
  }

  Parameter weight_g, weight_v;

  const char* type_name() const override { return "WeightNorm"; }
  void visit_members(MemberVisitor& visitor) override {
    detail::Replacing replacing(visitor, this->weight, weight_g, weight_v);
    Layer::visit_members(replacing);
  }
  WeightNorm clone() const {
    WeightNorm copy(*this);
    detail::unshare(copy);
    return copy;
  }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return this->call(
        [this]<class... Replaced>(Replaced&&... replaced) {
          return forward(std::forward<Replaced>(replaced)...);
        },
        std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    struct Cleared {  // also when the layer throws; what the tape needs of it, it keeps
      WeightNorm& self;
      ~Cleared() { self.set_weight({}); }
    } cleared{*this};
    set_weight(weight_norm(weight_v, weight_g));
    return Layer::forward(std::forward<Arguments>(arguments)...);
  }

  /// The layer with its weight of now as an ordinary parameter.
  Layer plain() const {
    Layer layer(*this);
    layer.weight = Parameter(no_grad([&] { return weight_norm(weight_v, weight_g); }));
    return layer;
  }

 private:
  void set_weight(const Tensor& weight) { static_cast<Tensor&>(this->weight) = weight; }
};

}  // namespace capstan::nn
