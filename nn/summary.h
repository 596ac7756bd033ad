// Defines summary(), a model as a table: each module with the shape of its result, its number of
// parameters and the floating-point operations of its forward pass.
#pragma once

#include <functional>
#include <string>

#include "autograd/node.h"
#include "nn/module.h"

namespace capstan::nn {

namespace detail {
std::string summarize(Module& copy, const std::function<void()>& run);
}

/// The table for an input of this shape and dtype. The shapes come from a run in evaluation mode on
/// Device::meta(), which takes neither time nor memory; the model stays as it is. A parameter
/// counts where its first name is, an operation (as core/costs.h counts it) in every module that is
/// running.
///
///   std::cout << nn::summary(model, {32, 1, 28, 28});
template <class Model>
std::string summary(const Model& model, const Shape& input_shape,
                    Dtype input_dtype = Dtype::float32) {
  Model copy(model);  // of handles, which are exchanged for shapes
  return detail::summarize(copy, [&] { copy(empty(input_shape, {input_dtype, Device::meta()})); });
}

}  // namespace capstan::nn
