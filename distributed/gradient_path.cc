#include "distributed/gradient_path.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "core/raise.h"

namespace capstan::distributed {

double Overlap::hidden() const {
  return communication > 0 ? std::clamp(1 - exposed / communication, 0.0, 1.0) : 1;
}

void GradientPath::backward(const Tensor& loss, double weight, Sync sync) {
  if (!(weight > 0 && std::isfinite(weight))) {
    raise<ValueError>(
        "[backward] the weight of a loss must be a number above 0, got {}; a rank without samples "
        "calls backward_without_data()",
        weight);
  }
  const Share share{weight, loss.item<double>() * weight};
  // The mean times its weight is the sum over the samples, so the seed is the weight.
  const Tensor seed = full(loss.shape(), weight, {loss.dtype(), loss.device()});
  pass([&] { capstan::backward(loss, {.seed = seed}); }, share, sync);
}

}  // namespace capstan::distributed
