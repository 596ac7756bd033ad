#include "nn/chain.h"

#include "core/raise.h"

namespace capstan::nn {

const Tensor& Layer::only(const Tensors& tensors) {
  if (tensors.size() != 1) {
    raise<ValueError>("[chain] a layer of one tensor got {}", tensors.size());
  }
  return tensors[0];
}

Tensor forward(const Layers& layers, const Tensor& x) {
  Tensors values{x};
  for (const Layer& layer : layers) values = layer.forward(values);
  if (values.size() != 1) {
    raise<ValueError>("[chain] the last layer must give one tensor, gave {}", values.size());
  }
  return values[0];
}

}  // namespace capstan::nn
