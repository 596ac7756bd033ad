#include "nn/sequential.h"

#include "core/raise.h"

namespace capstan::nn {

Sequential& Sequential::operator=(const Sequential& other) {
  Module::operator=(other);
  std::vector<std::unique_ptr<AnySlot>> layers;
  for (const auto& slot : other.layers_) layers.push_back(slot->copy());
  layers_ = std::move(layers);
  return *this;
}

Module& Sequential::operator[](size_t i) {
  if (i >= layers_.size()) {
    raise<ValueError>("[sequential] layer {} is out of range: there are {}", i, layers_.size());
  }
  return layers_[i]->module();
}

void Sequential::visit_members(MemberVisitor& visitor) {
  for (size_t i = 0; i < layers_.size(); ++i)
    visitor.module(std::to_string(i), layers_[i]->module());
}

Sequential Sequential::clone() const {
  Sequential copy(*this);
  detail::unshare(copy);
  return copy;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor value = x;
  for (const auto& slot : layers_) value = slot->run(value);
  return value;
}

Layers Sequential::layers() {
  Layers layers;
  for (size_t i = 0; i < layers_.size(); ++i) {
    AnySlot* const slot = layers_[i].get();
    layers.emplace_back(
        std::to_string(i), [slot](const Tensor& x) { return slot->run(x); },
        std::vector{&slot->module()});
  }
  return layers;
}

}  // namespace capstan::nn
