// Defines Microbatch, a part of a batch that passes through a pipeline at a time, and split(),
// which cuts a batch into them.
#pragma once

#include <optional>

#include "core/random.h"
#include "nn/chain.h"

namespace capstan::distributed::pipeline {

using nn::Tensors;

/// All ranks of a pipeline have the same microbatches, but elements are read where they are needed
/// only: those of the inputs on the first stage, those of the targets on the last. Elsewhere the
/// tensors may be on meta.
struct Microbatch {
  Tensors inputs;   // of the first layer
  Tensors targets;  // of the loss
  /// Of its mean loss, as in GradientPath::backward(): samples or tokens. 0: there is no data, and
  /// nothing is computed.
  double weight = 1;
  /// Where default_generator() stands when the first layer runs, if that matters (dropout): each
  /// stage draws from there on what the layers before it have left.
  std::optional<Generator> generator = {};
};

/// Equal parts of all tensors along axis 0, as views, each with its number of samples as weight.
/// Throws ValueError unless `microbatches` is 1 or more and divides the samples; ShapeError for a
/// tensor without axes, and for tensors of different numbers of samples.
std::vector<Microbatch> split(const Tensors& inputs, const Tensors& targets, int64_t microbatches);

}  // namespace capstan::distributed::pipeline
