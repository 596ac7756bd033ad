// Defines learning rate schedules: pure functions of the step, counted from 0.
//
// A schedule keeps nothing. A run that is resumed at step n asks for the rate of step n and gets
// what the uninterrupted run had there, on any number of ranks. Each is a struct of constants whose
// operator() is the function, and each is a Schedule; WarmUp and Then make one of others:
//
//   WarmUp{100, Cosine{.peak = 0.1, .total = 900}}
//   Then{Constant{0.1}, 500, Linear{.from = 0.1, .to = 0, .length = 100}}
//
// Every operator() throws ValueError for a negative step and for constants that make no sense. The
// schedule that listens to a metric is in plateau.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace capstan::optim {

/// From the step to the rate.
using Schedule = std::function<double(int64_t step)>;

// One curve.

/// `rate` everywhere.
struct Constant {
  double rate;
  double operator()(int64_t step) const;
};

/// `rate`, times `factor` after every `every` steps.
struct StepDecay {
  double rate;
  int64_t every;
  double factor = 0.1;
  double operator()(int64_t step) const;
};

/// `rate`, times `factor` from each of the milestones on, which rise.
struct MultiStepDecay {
  double rate;
  std::vector<int64_t> milestones;
  double factor = 0.1;
  double operator()(int64_t step) const;
};

/// rate * factor^step.
struct ExponentialDecay {
  double rate;
  double factor;
  double operator()(int64_t step) const;
};

/// A straight line from `from` at step 0 to `to` at step `length`, and on from there.
struct Linear {
  double from;
  double to;
  int64_t length;
  double operator()(int64_t step) const;
};

/// floor + (peak - floor) * (1 - step / total)^power; `floor` from step `total` on.
struct Polynomial {
  double peak;
  int64_t total;
  double power = 1;
  double floor = 0;
  double operator()(int64_t step) const;
};

/// From `peak` to `floor` along half a cosine, floor + (peak - floor) (1 + cos(pi step / total)) /
/// 2; `floor` from step `total` on (Loshchilov and Hutter, "SGDR", ICLR 2017, eq. 5).
struct Cosine {
  double peak;
  int64_t total;
  double floor = 0;
  double operator()(int64_t step) const;
};

/// That cosine over `period` steps, again and again; each period is `growth` times as long as the
/// one before (the same, section 3).
struct CosineRestarts {
  double peak;
  int64_t period;
  int64_t growth = 1;
  double floor = 0;
  double operator()(int64_t step) const;
};

/// From peak / start_divisor up to `peak` at step rising * total - 1, then down to peak /
/// (start_divisor * end_divisor) at the last step, total - 1: in half cosines, or straight lines
/// (Smith and Topin, "Super-convergence", 2018; the form that PyTorch and fastai use).
struct OneCycle {
  double peak;
  int64_t total;
  double rising = 0.3;  // the part of the steps that rise
  double start_divisor = 25;
  double end_divisor = 1e4;
  bool straight = false;
  double operator()(int64_t step) const;
};

// Made of others.

/// `first` for `length` steps, then `second`, which counts its own steps from 0.
struct Then {
  Schedule first;
  int64_t length;
  Schedule second;
  double operator()(int64_t step) const;
};

/// 1/length, 2/length, ..., 1 times the first rate of `then` for `length` steps (the first already
/// moves), and then `then`, which counts its own steps from 0 (Goyal et al., 2017, section 2.2).
struct WarmUp {
  int64_t length;
  Schedule then;
  double operator()(int64_t step) const;
};

/// Linear warm-up to `peak` over `warmup` steps, then a cosine to `floor` at step `total`.
struct WarmupCosine {
  double peak;
  int64_t warmup = 0;
  int64_t total;
  double floor = 0;
  double operator()(int64_t step) const;
};

/// WSD: warm-up over `warmup` steps, `peak` for `stable` steps, then down to `floor` over `decay`
/// steps, falling as 1 - sqrt (Hu et al., "MiniCPM", 2024, section 4.2; the form of the fall:
/// Hägele et al., "Scaling laws and compute-optimal training beyond fixed training durations",
/// NeurIPS 2024, eq. 2). The end need not be known while the rate is stable.
struct WarmupStableDecay {
  double peak;
  int64_t warmup = 0;
  int64_t stable;
  int64_t decay;
  double floor = 0;
  double operator()(int64_t step) const;
};

/// The linear scaling rule (Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1
/// hour", 2017, section 2.1): when the global batch grows `ranks` times at a fixed batch a rank, so
/// does the rate. Use it with a warm-up (section 2.2): the rule fails while weights change fast.
constexpr double scale_rate_linearly(double rate, int64_t ranks) {
  return rate * static_cast<double>(ranks);
}

}  // namespace capstan::optim
