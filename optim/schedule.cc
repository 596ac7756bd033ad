#include "optim/schedule.h"

#include <cmath>
#include <numbers>

#include "core/raise.h"

namespace capstan::optim {

double cosine(int64_t step, int64_t total) {
  if (step >= total) return 0;
  return (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(total))) /
         2;
}

double linear_warmup(int64_t step, int64_t length) {
  return step >= length ? 1 : static_cast<double>(step + 1) / static_cast<double>(length);
}

double WarmupCosine::operator()(int64_t step) const {
  if (step < 0 || warmup < 0 || warmup > total) {
    raise<ValueError>(
        "[schedule] step and warm-up must be at least 0 and the warm-up within the {} steps, "
        "got step {} and warm-up {}",
        total, step, warmup);
  }
  if (step < warmup) return peak * linear_warmup(step, warmup);
  return floor + (peak - floor) * cosine(step - warmup, total - warmup);
}

}  // namespace capstan::optim
