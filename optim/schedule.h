// Defines learning rate schedules: pure functions of the step, counted from 0.
//
// A schedule keeps nothing. A run that is resumed at step n asks for the rate of step n and gets
// what the uninterrupted run had there, on any number of ranks.
#pragma once

#include <cstdint>

namespace capstan::optim {

/// 1 falling to 0 along half a cosine: (1 + cos(pi * step / total)) / 2; 0 after `total`
/// (Loshchilov and Hutter, "SGDR", ICLR 2017, eq. 5).
double cosine(int64_t step, int64_t total);

/// 1/length, 2/length, ..., then 1: the first step already moves. 1 everywhere for length 0.
double linear_warmup(int64_t step, int64_t length);

/// Linear warm-up to `peak` over `warmup` steps, then a cosine to `floor` at step `total`.
struct WarmupCosine {
  double peak;
  int64_t warmup = 0;
  int64_t total;
  double floor = 0;

  /// Throws ValueError if warmup is negative or beyond total, or step is negative.
  double operator()(int64_t step) const;
};

/// The linear scaling rule (Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1
/// hour", 2017, section 2.1): when the global batch grows `ranks` times at a fixed batch a rank, so
/// does the rate. Use it with a warm-up (section 2.2): the rule fails while weights change fast.
constexpr double scale_rate_linearly(double rate, int64_t ranks) {
  return rate * static_cast<double>(ranks);
}

}  // namespace capstan::optim
