// Reading order: step(), direction(), then search() and zoom().
#include "optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/in_place.h"
#include "autograd/node.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/state.h"
#include "core/updates.h"
#include "optim/check.h"
#include "optim/measures.h"

namespace capstan::optim {
namespace {

using Vector = std::vector<Tensor>;

double dot(const Vector& a, const Vector& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += sum(a[i] * b[i]).item<double>();
  return total;
}

double largest(const Vector& a) {
  double largest = 0;
  for (const Tensor& each : a) {
    if (each.numel() > 0) largest = std::max(largest, max(absolute(each)).item<double>());
  }
  return largest;
}

/// a = a + factor * b
void add(const Vector& a, double factor, const Vector& b) {
  std::vector<Update> updates;
  for (size_t i = 0; i < a.size(); ++i) updates.push_back({SgdRule{.rate = -factor}, a[i], b[i]});
  apply_updates(updates);
}

void assign(const Vector& to, const Vector& from) {
  for (size_t i = 0; i < to.size(); ++i) copy_elements(from[i], to[i]);
}

Vector copies(const Vector& from) {
  Vector copies;
  for (const Tensor& each : from) copies.push_back(dense_copy(each));
  return copies;
}

/// Row `index` of a history, as a view.
Vector row(const Vector& history, int64_t index) {
  Vector row;
  for (const Tensor& each : history) row.push_back(select(each, 0, index));
  return row;
}

void check_iteration_counts(int64_t pairs, int64_t iterations, int64_t history) {
  if (pairs >= 0 && pairs <= history && pairs <= iterations) return;
  raise<ValueError>("[load_state] {} pairs of at most {} in {} iterations cannot be", pairs,
                    history, iterations);
}

}  // namespace

/// What is known at the parameters x + t d.
struct Lbfgs::Point {
  double t = 0;
  double loss;
  Vector grad;
  double slope = 0;  // of the loss along d
};

Lbfgs::Lbfgs(NamedTensors parameters, LbfgsOptions options)
    : parameters_(std::move(parameters)),
      options_(options),
      pairs_(zeros({}, {.dtype = Dtype::int64})),
      iterations_(zeros({}, {.dtype = Dtype::int64})) {
  if (options.history < 1 || options.iterations < 1) {
    raise<ValueError>("[lbfgs] history and iterations must be at least 1, got {} and {}",
                      options.history, options.iterations);
  }
  check_not_negative("lbfgs", "gradient_tolerance", options.gradient_tolerance);
  check_not_negative("lbfgs", "change_tolerance", options.change_tolerance);
  check_parameters({"lbfgs", Sees::tensors}, parameters_);
  for (const auto& [name, parameter] : parameters_) {
    const Dtype dtype = parameters_.front().second.dtype();
    if (is_half(dtype)) wrong_dtype("lbfgs", "float32 or float64 parameters", dtype);
    if (parameter.dtype() != dtype) {
      raise<DtypeError>("[lbfgs] parameters must be of one dtype: '{}' is {}, '{}' is {}",
                        parameters_.front().first, dtype, name, parameter.dtype());
    }
    Shape history = {options.history};
    for (const int64_t size : parameter.shape()) history.push_back(size);
    const TensorOptions like{dtype, parameter.device()};
    const auto keep = [&](Vector& vector, const char* quantity, const Shape& shape) {
      vector.push_back(zeros(shape, like));
      state_.emplace_back(name + "." + quantity, vector.back());
    };
    keep(s_, "s", history);
    keep(y_, "y", history);
    keep(gradient_, "gradient", parameter.shape());
    keep(change_, "change", parameter.shape());
  }
  state_.emplace_back("pairs", pairs_);
  state_.emplace_back("iterations", iterations_);
}

double Lbfgs::step(double rate, const std::function<double()>& closure) {
  check_positive("lbfgs.step", "the rate", rate);
  Point now = evaluate(closure);
  const double first_loss = now.loss;
  check_finite(now);
  Vector parameters;
  for (const auto& [_, parameter] : parameters_) parameters.push_back(detach(parameter));

  for (int64_t i = 0; i < options_.iterations; ++i) {
    if (largest(now.grad) <= options_.gradient_tolerance) break;
    double t = rate;
    if (iterations_.item<int64_t>() == 0) {
      double length = 0;
      for (const Tensor& each : now.grad) length += sum(absolute(each)).item<double>();
      t *= std::min(1.0, 1 / length);
    } else {
      remember(now.grad);
    }
    const Vector d = direction(now.grad);
    now.t = 0;
    now.slope = dot(now.grad, d);
    if (now.slope > -options_.change_tolerance) break;  // also where rounding has spoilt d

    const Vector begin = copies(parameters);
    const auto at = [&](double t) {
      assign(parameters, begin);
      add(parameters, t, d);
      Point point = evaluate(closure);
      point.t = t;
      point.slope = dot(point.grad, d);
      return point;
    };
    assign(gradient_, now.grad);
    const double before = now.loss, reach = largest(d);
    const bool last = i + 1 == options_.iterations;
    if (options_.line_search) {
      now = search(now, t, reach, at);
      t = now.t;
    } else if (!last) {
      now = at(t);
      check_finite(now);
    }
    // The search may have looked further than where it ends, and the last step needs no gradient.
    assign(parameters, begin);
    add(parameters, t, d);
    for (const Tensor& each : change_) fill_elements(each, 0);
    add(change_, t, d);
    ++*iterations_.mutable_data<int64_t>();
    // A direction in which nothing is better: what the pairs say is spoilt, start over.
    if (t == 0) *pairs_.mutable_data<int64_t>() = 0;
    if (t * reach <= options_.change_tolerance) break;
    if (std::abs(now.loss - before) < options_.change_tolerance) break;
  }
  return first_loss;
}

Lbfgs::Point Lbfgs::evaluate(const std::function<double()>& closure) {
  for (const auto& [_, parameter] : parameters_) {
    if (parameter.requires_grad()) zero_grad(parameter);
  }
  Point point;
  point.loss = closure();
  check_reduced(parameters_);
  for (const auto& [_, p] : parameters_) {
    point.grad.push_back(p.has_grad() ? dense_copy(p.grad())
                                      : zeros(p.shape(), {p.dtype(), p.device()}));
  }
  return point;
}

void Lbfgs::check_finite(const Point& point) {
  if (std::isfinite(point.loss) && std::all_of(point.grad.begin(), point.grad.end(), all_finite)) {
    return;
  }
  raise<ValueError>("[lbfgs.step] the loss ({}) and its gradients must be finite", point.loss);
}

void Lbfgs::remember(const Vector& grad) {
  const Vector y = copies(grad);
  add(y, -1, gradient_);
  if (dot(y, change_) <= 1e-10) return;
  int64_t& pairs = *pairs_.mutable_data<int64_t>();
  if (pairs == options_.history) {
    for (int64_t i = 1; i < pairs; ++i) {
      assign(row(s_, i - 1), row(s_, i));
      assign(row(y_, i - 1), row(y_, i));
    }
  } else {
    ++pairs;
  }
  assign(row(s_, pairs - 1), change_);
  assign(row(y_, pairs - 1), y);
}

/// -H g by two loops over the pairs (algorithm 7.4).
Lbfgs::Vector Lbfgs::direction(const Vector& grad) const {
  const auto pairs = pairs_.item<int64_t>();
  Vector d = copies(grad);
  std::vector<double> alpha(pairs), curvature(pairs);
  for (int64_t i = pairs - 1; i >= 0; --i) {
    curvature[i] = dot(row(y_, i), row(s_, i));
    alpha[i] = dot(row(s_, i), d) / curvature[i];
    add(d, -alpha[i], row(y_, i));
  }
  // The curvature along the latest pair is that of the first guess (eq. 7.20).
  double scale = 1;
  if (pairs > 0) scale = curvature[pairs - 1] / dot(row(y_, pairs - 1), row(y_, pairs - 1));
  for (const Tensor& each : d) scale_elements(each, scale);
  for (int64_t i = 0; i < pairs; ++i) {
    add(d, alpha[i] - dot(row(y_, i), d) / curvature[i], row(s_, i));
  }
  for (const Tensor& each : d) scale_elements(each, -1);
  return d;
}

namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1 and c2 of the Wolfe conditions
constexpr int kSearchSteps = 25;

}  // namespace

/// Goes further until a point is right, or has passed one that would be (algorithm 3.5).
Lbfgs::Point Lbfgs::search(const Point& start, double first, double reach,
                           const Evaluate& at) const {
  Point before = start;
  for (int i = 0; i < kSearchSteps; ++i) {
    Point now = at(before.t == 0 ? first : 2 * before.t);
    // Not "greater than": NaN is too high as well.
    const bool falls = now.loss <= start.loss + kDecrease * now.t * start.slope;
    if (!falls || (i > 0 && now.loss >= before.loss)) return zoom(start, before, now, reach, at);
    if (std::abs(now.slope) <= -kCurvature * start.slope) return now;
    if (now.slope >= 0) return zoom(start, now, before, reach, at);
    before = std::move(now);
  }
  return before;
}

/// Closes in on a point between `low`, the best so far, and `high` (algorithm 3.6).
Lbfgs::Point Lbfgs::zoom(const Point& start, Point low, Point high, double reach,
                         const Evaluate& at) const {
  for (int i = 0; i < kSearchSteps; ++i) {
    const double width = high.t - low.t;
    if (std::abs(width) * reach <= options_.change_tolerance) break;
    // Where the cubic through both points with their slopes is least (eq. 3.59), well inside.
    const double a = low.slope + high.slope - 3 * (low.loss - high.loss) / (low.t - high.t);
    const double b = std::copysign(std::sqrt(a * a - low.slope * high.slope), width);
    double part = 1 - (high.slope + b - a) / (high.slope - low.slope + 2 * b);
    part = std::isfinite(part) ? std::clamp(part, 0.1, 0.9) : 0.5;
    Point now = at(low.t + part * width);
    const bool falls = now.loss <= start.loss + kDecrease * now.t * start.slope;
    if (!falls || now.loss >= low.loss) {
      high = std::move(now);
      continue;
    }
    if (std::abs(now.slope) <= -kCurvature * start.slope) return now;
    if (now.slope * width >= 0) high = std::move(low);
    low = std::move(now);
  }
  return low;
}

void Lbfgs::load_state(const std::map<std::string, Tensor>& state) {
  check_state("load_state", "optimizer", state_, state);
  check_iteration_counts(state.at("pairs").item<int64_t>(), state.at("iterations").item<int64_t>(),
                         options_.history);
  copy_state("load_state", "optimizer", state_, state);
}

}  // namespace capstan::optim
