// Defines the arithmetic with which optimizers change parameters: one struct a rule, and Update, a
// parameter to which a rule is to be applied.
//
// A rule holds the constants of one step. Its operator() changes one element: of the parameter (p),
// by the gradient (g), and of the kKept tensors that the optimizer keeps. A rule that does not need
// one of those in its present setting may get an undefined tensor for it: the kernel then hands it
// zeros and forgets them. One kernel runs all rules (core/cpu/updates.cc); like the formulas in
// formulas.h they compile for host and device alike. What the formulas mean and where they come
// from is in optim/, in the header of each optimizer.
#pragma once

#include <cmath>
#include <span>
#include <variant>

#include "core/host_device.h"
#include "core/tensor.h"

namespace capstan {

/// Kept: the momentum buffer b. Without momentum b is the slope.
struct SgdRule {
  static constexpr int kKept = 1;
  double rate, momentum = 0, weight_decay = 0, share = 1;  // `share` scales the slope
  bool nesterov = false;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& b) const {
    const T slope = T(share) * (g + T(weight_decay) * p);
    b = T(momentum) * b + slope;
    p -= T(rate) * (nesterov ? slope + T(momentum) * b : b);
  }
};

/// Kept: first moment m, second moment v, for AMSGrad the largest v so far. `bias1` and `bias2` are
/// 1 - beta^step.
struct AdamRule {
  static constexpr int kKept = 3;
  double rate, beta1, beta2, epsilon, bias1, bias2;
  double decay = 0, l2 = 0;  // of the parameter itself, and through the gradient
  bool amsgrad = false;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& m, T& v, T& largest) const {
    g += T(l2) * p;
    m = T(beta1) * m + T(1 - beta1) * g;
    v = T(beta2) * v + T(1 - beta2) * (g * g);
    largest = amsgrad && largest > v ? largest : v;
    p = T(1 - rate * decay) * p -
        T(rate / bias1) * (m / (std::sqrt(largest) * T(1 / std::sqrt(bias2)) + T(epsilon)));
  }
};

/// The direction u in which LAMB goes, of a length still to be chosen; p stays. Kept: m, v, u.
struct LambRule {
  static constexpr int kKept = 3;
  double beta1, beta2, epsilon, weight_decay, bias1, bias2;

  template <class T>
  CAPSTAN_HD void operator()(const T& p, T g, T& m, T& v, T& u) const {
    m = T(beta1) * m + T(1 - beta1) * g;
    v = T(beta2) * v + T(1 - beta2) * (g * g);
    u = T(1 / bias1) * m / (std::sqrt(v) * T(1 / std::sqrt(bias2)) + T(epsilon)) +
        T(weight_decay) * p;
  }
};

/// Kept: average of the gradient's squares s, of the gradient a (if centered), momentum buffer b.
struct RmspropRule {
  static constexpr int kKept = 3;
  double rate, alpha, epsilon, momentum, weight_decay;
  bool centered;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& s, T& a, T& b) const {
    g += T(weight_decay) * p;
    s = T(alpha) * s + T(1 - alpha) * (g * g);
    a = T(alpha) * a + T(1 - alpha) * g;
    const T variance = centered ? s - a * a : s;
    b = T(momentum) * b + g / (std::sqrt(variance < 0 ? T(0) : variance) + T(epsilon));
    p -= T(rate) * b;
  }
};

/// Kept: the sum of the gradient's squares s.
struct AdagradRule {
  static constexpr int kKept = 1;
  double rate, epsilon, weight_decay;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& s) const {
    g += T(weight_decay) * p;
    s += g * g;
    p -= T(rate) * (g / (std::sqrt(s) + T(epsilon)));
  }
};

/// Kept: averages of the squares of the gradient s and of the changes d.
struct AdadeltaRule {
  static constexpr int kKept = 2;
  double rate, rho, epsilon, weight_decay;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& s, T& d) const {
    g += T(weight_decay) * p;
    s = T(rho) * s + T(1 - rho) * (g * g);
    const T change = std::sqrt(d + T(epsilon)) / std::sqrt(s + T(epsilon)) * g;
    d = T(rho) * d + T(1 - rho) * (change * change);
    p -= T(rate) * change;
  }
};

/// Kept: momentum m.
struct LionRule {
  static constexpr int kKept = 1;
  double rate, beta1, beta2, decay;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g, T& m) const {
    const T c = T(beta1) * m + T(1 - beta1) * g;
    m = T(beta2) * m + T(1 - beta2) * g;
    // NaN goes through: it must not end as "no change".
    const T sign = c > 0 ? T(1) : c < 0 ? T(-1) : c;
    p = T(1 - rate * decay) * p - T(rate) * sign;
  }
};

/// Moves an average p towards g, of which the new average is to hold `share`.
struct AverageRule {
  static constexpr int kKept = 0;
  double share;

  template <class T>
  CAPSTAN_HD void operator()(T& p, T g) const {
    p = T(1 - share) * p + T(share) * g;
  }
};

using UpdateRule = std::variant<SgdRule, AdamRule, LambRule, RmspropRule, AdagradRule, AdadeltaRule,
                                LionRule, AverageRule>;

/// One parameter to be changed in place. All tensors are dense, of one shape and floating dtype;
/// `kept` are up to the rule's kKept of them, in the rule's order.
struct Update {
  UpdateRule rule;
  Tensor parameter, grad;
  std::span<const Tensor> kept = {};
};

/// Applies all of them, in one parallel loop a device: many small parameters cost no more than one
/// large one. No tensor may be changed by two of them.
void apply_updates(std::span<const Update> updates);
inline void apply_update(const Update& update) { apply_updates({&update, 1}); }

}  // namespace capstan
