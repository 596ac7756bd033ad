// Defines Optimizer, what all optimizers share.
//
// The learning rate is an argument of step(), not a state: schedules are pure functions of the step
// (optim/schedule.h), so a resumed run cannot be at another point of its schedule than of its data.
//
// Read next: groups.h, from which the optimizers are derived.
#pragma once

#include <map>
#include <span>

#include "core/tensor.h"
#include "core/updates.h"

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
  /// counts the steps in which the parameter had a gradient. The tensors are the optimizer's own,
  /// not copies.
  const NamedTensors& state() const { return state_; }
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws ValueError
  /// for an entry that is missing, foreign or a negative count, ShapeError or DtypeError for one
  /// that differs, DeviceError for one without elements.
  void load_state(const std::map<std::string, Tensor>& state);

 protected:
  /// One parameter's turn in a step.
  struct Turn {
    double rate;
    int64_t step;  // 1 in the parameter's first
    const Tensor& parameter;
    const Tensor& grad;
    std::span<const Tensor> kept;
  };

  /// Throws as check_parameters() does.
  explicit Optimizer(NamedTensors parameters);

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
  };

  NamedTensors parameters_;
  std::vector<Kept> kept_;  // one a parameter
  NamedTensors state_;      // the same tensors, by name
};

}  // namespace capstan::optim
