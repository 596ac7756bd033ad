#include "distributed/tensor_parallel/tensor_parallel.h"

#include "core/raise.h"
#include "distributed/replicate.h"
#include "distributed/tensor_parallel/door.h"
#include "distributed/tensor_parallel/vocabulary.h"

namespace capstan::distributed {

TensorParallel::TensorParallel(nn::Module& model, const TensorPlan& plan, Communicator& ranks,
                               Recipe* recipe)
    : ranks_(ranks) {
  ranks.agree("plan of tensor parallelism and model", describe(model, plan));
  agree_on(recipe, model, ranks);
  Cutting cutting(model, plan, ranks);
  slices_ = cutting.slices();
  classes_ = cutting.classes();
  if (ranks.size() == 1) return;
  NamedTensors numbers;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.device().kind != Device::Kind::meta) numbers.emplace_back(name, parameter);
  }
  replicate(numbers, ranks, "model");
  hooks_ = cutting.carry_out(recipe);
}

const ParameterSlice& TensorParallel::slice(const std::string& parameter) const {
  const auto found = slices_.find(parameter);
  if (found == slices_.end()) {
    raise<ValueError>("[tensor_parallel] the model has no parameter '{}'", parameter);
  }
  return found->second;
}

/// The slice of a parameter or of a quantity of one, whose tensor is whole or this rank's slice.
ParameterSlice TensorParallel::slice_of_shape(const std::string& name, const Shape& shape,
                                              bool is_whole) const {
  const bool is_parameter = slices_.contains(name);
  const ParameterSlice& slice = this->slice(is_parameter ? name : name.substr(0, name.rfind('.')));
  Shape expected = slice.whole;
  if (slice.axis && !is_whole) expected[*slice.axis] = slice.count;
  if (shape == expected) return slice;
  if (is_parameter || numel(shape) != 1) {
    raise<ShapeError>("[tensor_parallel] '{}' must be {}{}, got {}", name, expected,
                      is_parameter ? "" : " as its parameter, or one element", shape);
  }
  return {shape};
}

NamedTensors TensorParallel::counted(const NamedTensors& tensors) const {
  NamedTensors counted;
  for (const auto& [name, tensor] : tensors) {
    if (ranks_.rank() == 0 || slice_of_shape(name, tensor.shape(), false).axis) {
      counted.emplace_back(name, tensor);
    }
  }
  return counted;
}

NamedTensors TensorParallel::cut(const NamedTensors& whole) const {
  NamedTensors slices;
  for (const auto& [name, tensor] : whole) {
    slices.emplace_back(name, cut_out(tensor, slice_of_shape(name, tensor.shape(), true)));
  }
  return slices;
}

NamedTensors TensorParallel::whole(const NamedTensors& slices) const {
  NoGrad off;
  NamedTensors whole;
  for (const auto& [name, tensor] : slices) {
    const ParameterSlice slice = slice_of_shape(name, tensor.shape(), false);
    whole.emplace_back(
        name, slice.axis ? door::join(tensor, *slice.axis, slice.whole[*slice.axis], ranks_, name)
                         : tensor);
  }
  return whole;
}

Pieces TensorParallel::pieces(const Pieces& mine) const {
  Pieces pieces;
  for (const auto& [name, region, values] : mine) {
    const ParameterSlice slice = slice_of_shape(name, region.global, false);
    if (slice.axis && region.shape != region.global) {
      raise<ShapeError>(
          "[tensor_parallel] a piece of the slice '{}' {} must be all of it or a range "
          "of its elements, got {}",
          name, region.global, to_string(region));
    }
    const Region whole = slice.axis
                             ? Region::slice(slice.whole, *slice.axis, slice.first, slice.count)
                                   .range(region.begin, region.end)
                             : region;
    pieces.push_back({name, whole, values});
  }
  return pieces;
}

int64_t TensorParallel::classes_of(const std::string& head) const {
  const auto classes = classes_.find(head);
  if (classes == classes_.end()) {
    raise<ValueError>("[tensor_parallel] the plan cuts no logits of '{}'", head);
  }
  return classes->second;
}

Tensor TensorParallel::joined(const std::string& head, const Tensor& logits) const {
  return door::join(logits, -1, classes_of(head), ranks_, "logits");
}

Tensor TensorParallel::cross_entropy(const std::string& head, const Tensor& logits,
                                     const Tensor& targets, LossReduction reduction) const {
  return vocabulary_cross_entropy(logits, targets, classes_of(head), ranks_, reduction);
}

}  // namespace capstan::distributed
