// Defines Lars: momentum with a rate of its own for each layer (You, Gitman and Ginsburg, "Large
// batch training of convolutional networks", 2017, algorithm 1).
//
// With gradient g, weight decay d, and norms over the whole parameter:
//   trust = coefficient * |p| / (|g| + d |p|), and 1 where either norm is 0
//   b = momentum b + rate * trust * (g + d p);  p = p - b
// Biases and norms are commonly left out of both: {biases_and_norms, plain_lars}.
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct LarsOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  double coefficient = 1e-3;
  bool adapt = true;  // false: trust is 1
};

/// For Group::change: the parameter is stepped as Sgd would.
inline constexpr auto plain_lars = [](LarsOptions& options) {
  options.weight_decay = 0;
  options.adapt = false;
};

class Lars final : public OptimizerOf<LarsOptions> {
 public:
  /// Throws ValueError for a negative option, momentum >= 1, or a coefficient not above 0.
  explicit Lars(NamedTensors parameters, LarsOptions options = {}, Groups<LarsOptions> groups = {});

 private:
  Update update(const LarsOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
