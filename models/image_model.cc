#include "models/image_model.h"

#include "core/raise.h"
#include "core/sha256.h"
#include "models/lenet.h"
#include "models/mlp.h"

namespace capstan::models {

ImageModel make_image_model(const std::string& name, double dropout) {
  if (name == "mlp") return ImageModel(std::make_unique<Mlp>(dropout));
  if (name == "lenet") return ImageModel(std::make_unique<LeNet>(dropout));
  raise<ValueError>("[make_image_model] a model is 'mlp' or 'lenet', got '{}'", name);
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
