// Defines AveragedWeights, an average over the weights of many steps, which often predicts better
// than the last of them; and what the average can be: Ema or Swa.
//
//   AveragedWeights average(model.parameters(), Ema{.decay = 0.999});
//   ... optimizer.step(rate(step)); average.update(step); ...
//   { AveragedWeights::Swap swapped = average.swap_in(); evaluate(model); }
//
// How much a step weighs is a function of the step alone, as a rate is, so there is nothing to be
// kept but the averages.
#pragma once

#include <functional>
#include <map>

#include "core/tensor.h"

namespace capstan::optim {

/// From the step, counted from 0, to the share of the present weights in the new average, in
/// [0, 1].
using AverageShare = std::function<double(int64_t step)>;

/// Exponential moving average: average = decay * average + (1 - decay) * weights (Polyak and
/// Juditsky, 1992, in the form of Tarvainen and Valpola, "Mean teachers", NeurIPS 2017, section 2).
/// The decay rises as (1 + step) / (10 + step) to its value, so that the first weights are
/// forgotten soon.
struct Ema {
  double decay = 0.999;
  double operator()(int64_t step) const;
};

/// Stochastic weight averaging: the plain mean of the weights at steps start, start + every, ...
/// (Izmailov et al., "Averaging weights leads to wider optima and better generalization", UAI 2018,
/// algorithm 1). Before `start` the average is the weights of the beginning.
struct Swa {
  int64_t start = 0;
  int64_t every = 1;
  double operator()(int64_t step) const;
};

class AveragedWeights {
 public:
  /// Begins with the present weights; those in 16 bits are averaged in float32. `weights` are
  /// parameters, and buffers if they are to be averaged, too. Throws ValueError for a name that
  /// comes twice, an empty `share`, or a tensor that is not contiguous; DtypeError for one that is
  /// not floating point.
  AveragedWeights(NamedTensors weights, AverageShare share);

  /// Takes in the weights as they are after step number `step`. Throws ValueError for a share
  /// outside [0, 1], for constants of Ema or Swa that make no sense, and while swapped in.
  void update(int64_t step);

  /// The averages, under the names of the weights. The tensors are the object's own, not copies.
  const NamedTensors& state() const { return averages_; }
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws as
  /// check_state() does, and ValueError while swapped in.
  void load_state(const std::map<std::string, Tensor>& state);

  /// While it lives, the model has the averages as its weights; afterwards its own again, to the
  /// last bit.
  class Swap {
   public:
    explicit Swap(AveragedWeights& average);
    ~Swap();
    Swap(const Swap&) = delete;
    Swap& operator=(const Swap&) = delete;

   private:
    AveragedWeights& average_;
    std::vector<Tensor> own_;
  };
  /// Throws ValueError while swapped in already. The object must outlive the guard.
  [[nodiscard]] Swap swap_in() { return Swap(*this); }

 private:
  void refuse_while_swapped(const char* operation) const;

  NamedTensors weights_, averages_;
  AverageShare share_;
  bool swapped_ = false;
};

}  // namespace capstan::optim
