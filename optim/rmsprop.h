// Defines Rmsprop: the gradient over the root of its recent mean square (Tieleman and Hinton,
// "Lecture 6.5 - RMSProp", Coursera 2012; centered: Graves, "Generating sequences with recurrent
// neural networks", 2013, section 4.2).
//
// With gradient g:
//   g = g + weight_decay * p
//   s = alpha s + (1 - alpha) g^2;  a = alpha a + (1 - alpha) g
//   b = momentum b + g / (sqrt(centered ? s - a^2 : s) + epsilon)
//   p = p - rate * b
#pragma once

#include "optim/groups.h"

namespace capstan::optim {

struct RmspropOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  bool centered = false;
};

class Rmsprop final : public OptimizerOf<RmspropOptions> {
 public:
  /// Throws ValueError for alpha or momentum outside [0, 1), a negative decay, or epsilon not above
  /// 0.
  explicit Rmsprop(NamedTensors parameters, RmspropOptions options = {},
                   Groups<RmspropOptions> groups = {});

 private:
  Update update(const RmspropOptions& options, const Turn& turn) override;
};

}  // namespace capstan::optim
