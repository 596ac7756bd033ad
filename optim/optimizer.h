// Defines Optimizer, what all optimizers share.
//
// The learning rate is an argument of step(), not a state: schedules are pure functions of the step
// (optim/schedule.h), so a resumed run cannot be at another point of its schedule than of its data.
#pragma once

#include <map>

#include "core/tensor.h"

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
  /// counts the steps in which the parameter had a gradient.
  NamedTensors state() const;
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws ValueError
  /// for an entry that is missing, foreign or a negative count, ShapeError or DtypeError for one
  /// that differs, DeviceError for one without elements.
  void load_state(const std::map<std::string, Tensor>& state);

 protected:
  /// `quantities` names the tensors to keep for each parameter, each of its shape: {"momentum"}.
  /// They start as zeros. Throws ValueError for a name or a parameter that comes twice and for one
  /// that is not contiguous, DtypeError for integers, GradientError for a result of an operation.
  Optimizer(NamedTensors parameters, std::vector<std::string> quantities);

  /// Changes one parameter; `kept` are its quantities. `step` is 1 in the parameter's first step.
  virtual void update(double rate, int64_t step, const Tensor& parameter, const Tensor& grad,
                      const std::vector<Tensor>& kept) = 0;

 private:
  struct Kept {
    std::vector<Tensor> tensors;  // one a quantity
    int64_t steps = 0;
  };

  NamedTensors parameters_;
  std::vector<std::string> quantities_;
  std::vector<Kept> kept_;  // one a parameter
};

}  // namespace capstan::optim
