// Implements replicate().
#include "distributed/replicate.h"

#include "core/raise.h"

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

}  // namespace capstan::distributed
