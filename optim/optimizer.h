// Defines Optimizer, what all optimizers share.
//
// The learning rate is an argument of step(), not a state: schedules are pure functions of the step
// (optim/schedule.h), so a resumed run cannot be at another point of its schedule than of its data.
//
// A float16 or bfloat16 parameter is stepped through a float32 copy, its master weights
// (Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.1): a step that is less
// than half of the parameter's last place would be lost, again and again. What is kept for it is
// float32 as well. Where somebody else writes into the parameter (loading weights, say), the copy
// follows.
//
// Read next: groups.h, from which the optimizers are derived.
#pragma once

#include <map>
#include <span>

#include "core/tensor.h"
#include "core/updates.h"
#include "optim/check.h"

namespace capstan::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Changes every parameter that has a gradient. Throws GradientError, before anything is changed,
  /// if a gradient is one rank's share that was not reduced; ValueError for a rate that is not a
  /// number >= 0.
  void step(double rate);
  /// Forgets all gradients.
  void zero_grad();

  const NamedTensors& parameters() const { return parameters_; }

  /// What step() keeps between calls, under "<parameter>.<quantity>"; "<parameter>.steps" (int64)
  /// counts the steps in which the parameter had a gradient, and "<parameter>.master" are the
  /// master weights of a 16-bit one. The tensors are the optimizer's own, not copies.
  const NamedTensors& state() const { return state_; }
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws ValueError
  /// for an entry that is missing, foreign or a negative count, ShapeError or DtypeError for one
  /// that differs, DeviceError for one without elements.
  void load_state(const std::map<std::string, Tensor>& state);

 protected:
  /// One parameter's turn in a step: in float32 or float64.
  struct Turn {
    double rate;
    int64_t step;             // 1 in the parameter's first
    const Tensor& parameter;  // or its master weights
    const Tensor& grad;
    std::span<const Tensor> kept;
  };

  /// Throws as check_parameters() does.
  Optimizer(const Kind& kind, NamedTensors parameters);

  /// What a step changes: parameter number `index`, or its master weights.
  const Tensor& stepped(size_t index) const;

  /// Takes up what is to be kept for parameter number `index`, by the quantity's name; once for
  /// each, in the constructor.
  void add_state(size_t index, const NamedTensors& quantities);

  /// The element-wise pass that changes parameter number `index`. The passes of all parameters run
  /// together; what has to be known before (a norm, ...) is worked out here.
  virtual Update update(size_t index, const Turn& turn) = 0;

 private:
  struct Kept {
    std::vector<Tensor> tensors;
    Tensor steps;
    Tensor master;         // of a 16-bit parameter
    int64_t written = -1;  // the parameter's version when `master` was last rounded into it
  };

  void follow(size_t index);
  void apply(std::vector<Update>& updates, std::vector<size_t>& indices);

  NamedTensors parameters_;
  std::vector<Kept> kept_;  // one a parameter
  NamedTensors state_;      // the same tensors, by name
};

}  // namespace capstan::optim
