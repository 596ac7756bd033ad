#include "optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "optim/measures.h"

namespace capstan::optim {
namespace {

void check(const AdafactorOptions& o) {
  check_positive("adafactor", "decay", o.decay);
  check_positive("adafactor", "floor", o.floor);
  check_positive("adafactor", "least_scale", o.least_scale);
  check_positive("adafactor", "threshold", o.threshold);
  check_not_negative("adafactor", "weight_decay", o.weight_decay);
}

NamedTensors keep(const AdafactorOptions&, const Tensor& parameter) {
  if (parameter.rank() < 2) return zeros_beside(parameter, {"second_moment"});
  Shape rows = parameter.shape(), columns = rows;
  rows[parameter.rank() - 1] = columns[parameter.rank() - 2] = 1;
  const TensorOptions like{parameter.dtype(), parameter.device()};
  return {{"row_moment", zeros(rows, like)}, {"column_moment", zeros(columns, like)}};
}

double root_mean_square(const Tensor& x) {
  return two_norm(x) / std::sqrt(static_cast<double>(x.numel()));
}

}  // namespace

Adafactor::Adafactor(NamedTensors parameters, AdafactorOptions options,
                     Groups<AdafactorOptions> groups)
    : OptimizerOf({"adafactor", Sees::tensors}, std::move(parameters), options, groups, check,
                  keep) {}

Update Adafactor::update(const AdafactorOptions& o, const Turn& turn) {
  const auto& [rate, step, p, g, kept] = turn;
  if (p.numel() == 0) return {SgdRule{.rate = rate}, p, g};
  // average = beta average + (1 - beta) now
  const double share = std::pow(static_cast<double>(step), -o.decay);
  const auto move = [&](const Tensor& average, const Tensor& now) {
    apply_update({AverageRule{share}, average, now});
    return average;
  };
  const Tensor squares = square(g) + o.floor;
  Tensor v;
  if (p.rank() < 2) {
    v = move(kept[0], squares);
  } else {
    const Tensor rows = move(kept[0], mean(squares, {-1}, true));
    const Tensor columns = move(kept[1], mean(squares, {-2}, true));
    v = rows / mean(rows, {-2}, true) * columns;
  }
  const Tensor u = g / sqrt(v);
  const double size = std::max(o.least_scale, root_mean_square(p));
  const double excess = std::max(1.0, root_mean_square(u) / o.threshold);
  // p - rate size (u / excess + weight_decay / size p)
  const SgdRule rule{.rate = rate * size / excess, .weight_decay = o.weight_decay * excess / size};
  return {rule, p, u};
}

}  // namespace capstan::optim
