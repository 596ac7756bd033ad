#include "optim/plateau.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"
#include "optim/check.h"

namespace capstan::optim {

double Plateau::operator()(std::span<const double> metrics) const {
  check_not_negative("plateau", "rate", rate);
  check_not_negative("plateau", "floor", floor);
  check_fraction("plateau", "factor", factor);
  check_fraction("plateau", "threshold", threshold);
  if (patience < 0 || cooldown < 0) {
    raise<ValueError>("[plateau] patience and cooldown must be at least 0, got {} and {}", patience,
                      cooldown);
  }
  double now = rate, best = std::nan("");
  int64_t no_better = 0, cooling = 0;
  for (const double metric : metrics) {
    const double gain = rising ? metric - best : best - metric;
    const double least = std::isfinite(best) ? threshold * std::abs(best) : 0;
    const bool better = std::isnan(best) ? !std::isnan(metric) : gain > least;
    if (better) best = metric;
    no_better = better ? 0 : no_better + 1;
    if (cooling > 0) {
      --cooling;
      no_better = 0;
    }
    if (no_better > patience) {
      now = std::max(now * factor, std::min(now, floor));
      cooling = cooldown;
      no_better = 0;
    }
  }
  return now;
}

}  // namespace capstan::optim
