// Implements replicate() and agree_on().
#include "distributed/replicate.h"

#include "core/raise.h"
#include "core/sha256.h"

namespace capstan::distributed {
namespace {

std::string describe(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{} {} {}{}\n", name, tensor.dtype(), tensor.shape(),
                        tensor.requires_grad() ? "" : " frozen");
  }
  return text;
}

}  // namespace

void replicate(const NamedTensors& tensors, Communicator& communicator, std::string_view what) {
  communicator.agree(what, describe(tensors));
  std::vector<Work> works;
  for (const auto& [name, tensor] : tensors)
    works.push_back(communicator.broadcast(tensor, 0, name));
  for (const Work& work : works) work.wait();
}

void agree_on(const Recipe* recipe, nn::Module& model, Communicator& communicator) {
  std::string digest = "none";
  communicator.together("recipe", [&] {
    if (!recipe) return;
    for (const auto& [name, parameter] : model.parameters()) {
      if (parameter.device().kind == Device::Kind::meta) continue;
      raise<ValueError>("[recipe] '{}' is on {}: a recipe comes with a model that is on meta", name,
                        parameter.device());
    }
    Sha256 hash;
    const std::string text = recipe->text();
    hash.update(std::as_bytes(std::span(text)));
    digest = hash.hex();
  });
  communicator.agree("the recipe of the model (its seed, say)", digest);
}

}  // namespace capstan::distributed
