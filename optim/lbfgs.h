// Defines Lbfgs: quasi-Newton steps from the last gradients, for problems that are small and not
// noisy, where every gradient is of the whole data (Liu and Nocedal, "On the limited memory BFGS
// method for large scale optimization", 1989; Nocedal and Wright, "Numerical optimization", 2nd
// edition, 2006: algorithm 7.4 for the direction, 3.5 and 3.6 for the line search).
//
// With gradient g, and the last pairs of s (how the parameters changed) and y (how g changed):
//   d = -H g, where H is the inverse Hessian that the pairs tell of: no pair, H = 1
//   p = p + t d, where t is the rate, for the first step of all rate * min(1, 1 / |g|_1); with
//   line search t fulfils the strong Wolfe conditions, and the rate is where the search starts
//
//   lbfgs.step(1, [&] {
//     const Tensor loss = ...;
//     backward(loss);
//     return loss.item<double>();
//   });
#pragma once

#include <functional>
#include <map>

#include "core/tensor.h"

namespace capstan::optim {

struct LbfgsOptions {
  int64_t history = 10;     // pairs
  int64_t iterations = 20;  // in one call of step(), at most
  bool line_search = true;
  double gradient_tolerance = 1e-7;  // no element of the gradient is larger: done
  double change_tolerance = 1e-9;    // no parameter, or not the loss, changes by more: done
};

class Lbfgs {
 public:
  /// Throws ValueError for history or iterations below 1 or a negative tolerance, DtypeError for
  /// parameters of several dtypes, and as check_parameters() does.
  explicit Lbfgs(NamedTensors parameters, LbfgsOptions options = {});

  /// Changes the parameters and returns the loss where it began. `closure` computes the loss, runs
  /// backward, and returns the loss; it is called several times, each time without gradients, and
  /// what they are at the end is not said. Throws ValueError for a rate that is not above 0, or for
  /// a loss or gradient that is not finite (a line search steps back from one); GradientError for a
  /// gradient that was not reduced.
  double step(double rate, const std::function<double()>& closure);

  const NamedTensors& parameters() const { return parameters_; }

  /// "<parameter>.s" and ".y" (its part of the pairs, the latest last), ".gradient" and ".change"
  /// (of the last iteration), and "pairs" and "iterations" (int64), the numbers of pairs and of
  /// iterations so far. The tensors are the optimizer's own, not copies.
  const NamedTensors& state() const { return state_; }
  /// Continues from a saved state(). Nothing is changed unless everything fits: throws as
  /// check_state() does, and ValueError for numbers that cannot be.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  /// A vector over all parameters: one tensor for each.
  using Vector = std::vector<Tensor>;
  struct Point;
  using Evaluate = std::function<Point(double t)>;

  /// The closure's loss at the present parameters, and its gradient.
  Point evaluate(const std::function<double()>& closure);
  static void check_finite(const Point& point);
  /// Takes up the pair of the last change, if the curvature along it is positive.
  void remember(const Vector& grad);
  Vector direction(const Vector& grad) const;
  Point search(const Point& start, double first, double reach, const Evaluate& at) const;
  Point zoom(const Point& start, Point low, Point high, double reach, const Evaluate& at) const;

  NamedTensors parameters_;
  LbfgsOptions options_;
  Vector s_, y_;  // each [history, ...]
  Vector gradient_, change_;
  Tensor pairs_, iterations_;
  NamedTensors state_;
};

}  // namespace capstan::optim
