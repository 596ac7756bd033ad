#include "distributed/pipeline/microbatch.h"

#include "core/raise.h"

namespace capstan::distributed::pipeline {

std::vector<Microbatch> split(const Tensors& inputs, const Tensors& targets, int64_t microbatches) {
  if (inputs.empty()) raise<ValueError>("[split] needs a tensor to cut into microbatches");
  Tensors all = inputs;
  all.insert(all.end(), targets.begin(), targets.end());
  for (const Tensor& tensor : all) {
    if (tensor.rank() > 0 && inputs[0].rank() > 0 && tensor.size(0) == inputs[0].size(0)) continue;
    raise<ShapeError>(
        "[split] all tensors have the batch's samples along axis 0, got shapes {} and {}",
        inputs[0].shape(), tensor.shape());
  }
  const int64_t samples = inputs[0].size(0);
  if (microbatches < 1 || samples % microbatches != 0) {
    raise<ValueError>("[split] {} samples cannot be cut into {} equal microbatches", samples,
                      microbatches);
  }
  const int64_t size = samples / microbatches;
  std::vector<Microbatch> parts;
  for (int64_t i = 0; i < microbatches; ++i) {
    const auto part_of = [&](const Tensors& tensors) {
      Tensors parts;
      for (const Tensor& tensor : tensors) {
        parts.push_back(view_of(tensor, tensor.layout().sliced(0, i * size, (i + 1) * size)));
      }
      return parts;
    };
    parts.push_back({part_of(inputs), part_of(targets), static_cast<double>(size)});
  }
  return parts;
}

}  // namespace capstan::distributed::pipeline
