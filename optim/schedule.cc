#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/raise.h"

namespace capstan::optim {
namespace {

// Every schedule begins with these.

void check_step(int64_t step) {
  if (step < 0) raise<ValueError>("[schedule] steps count from 0, got {}", step);
}

void check_rate(const char* name, double rate) {
  if (rate >= 0 && std::isfinite(rate)) return;
  raise<ValueError>("[schedule] {} must be a number >= 0, got {}", name, rate);
}

void check_factor(const char* name, double factor) {
  if (factor > 0 && std::isfinite(factor)) return;
  raise<ValueError>("[schedule] {} must be a number above 0, got {}", name, factor);
}

void check_length(const char* name, int64_t length, int64_t least) {
  if (length < least) {
    raise<ValueError>("[schedule] {} must be at least {}, got {}", name, least, length);
  }
}

void check_schedule(const char* name, const Schedule& schedule) {
  if (!schedule) raise<ValueError>("[schedule] {} is no schedule", name);
}

/// step / total, and 1 from there on; 1 for a total of 0.
double progress(double step, double total) { return step < total ? step / total : 1; }

double straight(double from, double to, double progress) { return from + (to - from) * progress; }

/// Along half a cosine.
double curved(double from, double to, double progress) {
  if (progress == 1) return to;  // to the last bit
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

double Constant::operator()(int64_t step) const {
  check_step(step);
  check_rate("rate", rate);
  return rate;
}

double StepDecay::operator()(int64_t step) const {
  check_step(step);
  check_rate("rate", rate);
  check_length("every", every, 1);
  check_factor("factor", factor);
  return rate * std::pow(factor, step / every);
}

double MultiStepDecay::operator()(int64_t step) const {
  check_step(step);
  check_rate("rate", rate);
  check_factor("factor", factor);
  if (!std::is_sorted(milestones.begin(), milestones.end())) {
    raise<ValueError>("[schedule] milestones must rise, got [{}]", fmt::join(milestones, ", "));
  }
  const auto passed = std::upper_bound(milestones.begin(), milestones.end(), step);
  return rate * std::pow(factor, passed - milestones.begin());
}

double ExponentialDecay::operator()(int64_t step) const {
  check_step(step);
  check_rate("rate", rate);
  check_factor("factor", factor);
  return rate * std::pow(factor, step);
}

double Linear::operator()(int64_t step) const {
  check_step(step);
  check_rate("from", from);
  check_rate("to", to);
  check_length("length", length, 0);
  return straight(from, to, progress(step, length));
}

double Polynomial::operator()(int64_t step) const {
  check_step(step);
  check_rate("peak", peak);
  check_rate("floor", floor);
  check_length("total", total, 0);
  check_factor("power", power);
  return floor + (peak - floor) * std::pow(1 - progress(step, total), power);
}

double Cosine::operator()(int64_t step) const {
  check_step(step);
  check_rate("peak", peak);
  check_rate("floor", floor);
  check_length("total", total, 0);
  return curved(peak, floor, progress(step, total));
}

double CosineRestarts::operator()(int64_t step) const {
  check_step(step);
  check_rate("peak", peak);
  check_rate("floor", floor);
  check_length("period", period, 1);
  check_length("growth", growth, 1);
  double left = growth == 1 ? step % period : step, length = period;
  for (; left >= length; length *= growth) left -= length;
  return curved(peak, floor, left / length);
}

double OneCycle::operator()(int64_t step) const {
  check_step(step);
  check_rate("peak", peak);
  check_length("total", total, 1);
  check_factor("start_divisor", start_divisor);
  check_factor("end_divisor", end_divisor);
  const double last = total - 1, top = rising * total - 1;
  if (!(top > 0 && top < last)) {
    raise<ValueError>(
        "[schedule] of {} steps a part of {} cannot rise: both ways need more than one step", total,
        rising);
  }
  const auto curve = straight ? optim::straight : curved;
  const double start = peak / start_divisor;
  if (step <= top) return curve(start, peak, step / top);
  return curve(peak, start / end_divisor, progress(step - top, last - top));
}

double Then::operator()(int64_t step) const {
  check_step(step);
  check_length("length", length, 0);
  check_schedule("first", first);
  check_schedule("second", second);
  return step < length ? first(step) : second(step - length);
}

double WarmUp::operator()(int64_t step) const {
  check_step(step);
  check_length("length", length, 0);
  check_schedule("then", then);
  if (step >= length) return then(step - length);
  return then(0) * (static_cast<double>(step + 1) / static_cast<double>(length));
}

double WarmupCosine::operator()(int64_t step) const {
  check_length("warmup", warmup, 0);
  if (warmup > total) {
    raise<ValueError>("[schedule] a warm-up of {} steps does not fit into {}", warmup, total);
  }
  return Then{WarmUp{warmup, Constant{peak}}, warmup,
              Cosine{.peak = peak, .total = total - warmup, .floor = floor}}(step);
}

double WarmupStableDecay::operator()(int64_t step) const {
  check_rate("peak", peak);
  check_rate("floor", floor);
  check_length("warmup", warmup, 0);
  check_length("stable", stable, 0);
  check_length("decay", decay, 0);
  const auto fall = [this](int64_t step) {
    return straight(peak, floor, std::sqrt(progress(step, decay)));
  };
  return Then{WarmUp{warmup, Constant{peak}}, warmup + stable, fall}(step);
}

}  // namespace capstan::optim
