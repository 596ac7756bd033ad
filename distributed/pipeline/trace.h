// Defines Trace, what a microbatch will be on its way through the chunks of a model: learned on
// Device::meta(), before the first of them runs, on every rank alike. So a stage knows what it will
// receive, and how far the layers before it move the random numbers on.
#pragma once

#include "distributed/pipeline/cut.h"
#include "nn/chain.h"

namespace capstan::distributed::pipeline {

using nn::Tensors;

/// A tensor that one chunk hands to the next.
struct Crossing {
  Shape shape;
  Dtype dtype;
  bool needs_gradient;  // which then comes back

  bool operator==(const Crossing&) const = default;
};

struct Trace {
  /// What chunk c takes, and behind the last chunk what that gives.
  std::vector<std::vector<Crossing>> into;
  /// Words of default_generator() that are drawn before chunk c.
  std::vector<uint64_t> drawn;
};

/// Tensors of these shapes and dtypes on meta.
Tensors on_meta(const Tensors& tensors);

/// Runs a chain that is on meta. Throws ValueError for an input that no layer takes, or whatever a
/// layer throws, naming the layer.
Trace trace(const nn::Chain& chain, const Cut& cut, const Tensors& inputs);

/// Floating-point operations of each layer's forward pass, likewise.
std::vector<double> layer_costs(const nn::Chain& chain, const Tensors& inputs);

/// "float32 [4, 3], int64 [4]".
std::string to_string(const std::vector<Crossing>& tensors);
std::vector<Crossing> crossings(const Tensors& tensors);

}  // namespace capstan::distributed::pipeline
