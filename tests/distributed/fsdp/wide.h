// Defines Wide, a model that is large beside its activations, and a check of what tensors hold at
// most while it is trained.
#pragma once

#include <doctest/doctest.h>

#include "distributed/fsdp/zero_memory.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {

/// Wide blocks, so that the model is large beside its activations; of 259,568 bytes, a little less
/// than a size class of the allocator, which rounds up.
struct WideBlock : nn::Module {
  nn::Linear up{128, 252}, down{252, 128};
  CAPSTAN_MODULE(WideBlock, up, down)
  Tensor forward(const Tensor& x) { return x + down(relu(up(x))); }
};
struct Wide : nn::Module {
  static constexpr double kGradient = 4 * 128 * 252;  // bytes of the largest
  /// Bytes of the gradients of the root and two blocks.
  static constexpr double kUnitsOfAPass = 4 * (128 * 128 + 128 + 2 * (2 * 128 * 252 + 128 + 252));

  nn::Linear in{128, 128};
  nn::ModuleList<WideBlock> blocks{12};
  CAPSTAN_MODULE(Wide, in, blocks)
  Tensor forward(const Tensor& x) {
    Tensor y = in(x);
    for (WideBlock& block : blocks) y = block(y);
    return y;
  }
};

/// Trains a Wide on a device of this rank's own, in steps of some passes. In a step tensors hold at
/// most, to 5 %, the states by the formula, the units of a pass, the gradient that an operation has
/// just made, and `more` bytes.
inline void check_peak(Communicator& c, int stage, const FsdpOptions& options = {}, double more = 0,
                       int passes = 1) {
  const Device device = Device::cpu(20 + c.rank());
  Allocator& memory = allocator(device);
  const int64_t before = memory.stats().current;
  Wide model;
  model.to(device);
  const auto path = strategy(model, c, stage, options);
  optim::AdamW adamw(path->parameters());
  const Tensor x = full({2, 128}, 0.1, {.device = device}), y = zeros({2}, {Dtype::int64, device});
  const auto step = [&] {
    for (int pass = 1; pass <= passes; ++pass)
      path->backward(cross_entropy(model(x), y), 2, pass == passes ? Sync::yes : Sync::no);
    adamw.step(0.01);
    path->after_step();
    adamw.zero_grad();
  };
  step();
  step();
  memory.reset_peak();
  step();
  const auto peak = static_cast<double>(memory.stats().peak - before);
  double expected = zero_memory(model.parameter_count(), c.size(), stage).total();
  if (auto* const fsdp = dynamic_cast<Fsdp*>(path.get()))
    expected += static_cast<double>(pass_memory(*fsdp, stage));
  expected += Wide::kGradient + more;
  CAPTURE(peak);
  CAPTURE(expected);
  CHECK(peak > 0.95 * expected);
  CHECK(peak < 1.05 * expected);
}

}  // namespace capstan::distributed::testing
