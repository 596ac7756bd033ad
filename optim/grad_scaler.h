// Defines GradScaler, dynamic loss scaling: the loss is multiplied so that small gradients do not
// vanish in a narrow dtype, as far as large ones do not overflow (Micikevicius et al., "Mixed
// precision training", ICLR 2018, section 3.2; the scale finds itself).
//
//   backward(scaler.scale(loss));
//   const bool finite = scaler.unscale(parameters);   // after the gradients are reduced
//   if (finite) {
//     clip_grad_norm(parameters, 1);
//     optimizer.step(rate(step));
//   }
//   scaler.update(finite);
//   optimizer.zero_grad();
//
// A reduced gradient is the same on every rank, and so is `finite`. Where ranks hold different
// shards, combine it over all of them before it is used.
#pragma once

#include <map>

#include "core/tensor.h"

namespace capstan::optim {

struct GradScalerOptions {
  double start = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;  // finite steps in a row after which the scale grows
};

class GradScaler {
 public:
  /// Throws ValueError unless start > 0, growth >= 1, backoff in (0, 1) and interval >= 1.
  explicit GradScaler(GradScalerOptions options = {});

  /// loss * factor(), on the tape.
  Tensor scale(const Tensor& loss) const;
  /// Divides all gradients by factor(). False, and nothing is changed, if an element is not finite:
  /// then the step is to be skipped.
  bool unscale(const NamedTensors& parameters) const;
  /// To be called once a step: factor() grows after `interval` finite steps in a row, and falls
  /// after one that was not. Throws ValueError where it would fall to 0: the loss itself is then
  /// not finite.
  void update(bool finite);

  double factor() const;

  /// "scale" (float64) and "finite_steps" (int64), the finite steps since the scale last changed.
  /// The tensors are the scaler's own, not copies.
  const NamedTensors& state() const { return state_; }
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws as
  /// check_state() does, and ValueError for a scale not above 0 or a negative count.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  GradScalerOptions options_;
  NamedTensors state_;
};

}  // namespace capstan::optim
