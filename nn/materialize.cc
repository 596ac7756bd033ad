#include "nn/materialize.h"

#include "autograd/node.h"

namespace capstan::nn {

void materialize(Module& module, const Recipe& recipe, Device device) {
  const auto make = [&](const Tensor& tensor) {
    if (tensor.device().kind == Device::Kind::meta) become(tensor, recipe.make(tensor, device));
  };
  for (const auto& [_, parameter] : module.parameters()) make(parameter);
  for (const auto& [_, buffer] : module.buffers()) make(buffer);
}

void become(const Tensor& tensor, const Tensor& place) {
  TensorBody& body = tensor.body();
  const bool moves = !(tensor.device() == place.device());
  const bool trained = tensor.requires_grad();
  body.storage = place.body().storage;
  body.layout = place.layout();
  body.seen_writes = TensorBody::kApart;
  if (!moves || !trained) return;
  const Ref<TapeNode> node = std::exchange(body.node, nullptr);  // which knows the device
  auto& before = static_cast<Accumulator&>(*node);
  Accumulator& now = accumulator(require_grad(tensor));
  now.gradient_hooks(0) = before.gradient_hooks(0);
  now.after_accumulation = before.after_accumulation;
  now.part_of_whole = before.part_of_whole;
}

}  // namespace capstan::nn
