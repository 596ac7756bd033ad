#include "optim/measures.h"

#include <cmath>

#include "autograd/reduce.h"
#include "core/backend.h"

namespace capstan::optim {

double two_norm(const Tensor& tensor) { return std::sqrt(backend(tensor).sum_of_squares(tensor)); }

bool all_finite(const Tensor& tensor) {
  if (std::isfinite(two_norm(tensor))) return true;
  // Squares of float64 may overflow where the elements do not. NaN goes through both.
  return std::isfinite(max(tensor).item<double>()) && std::isfinite(min(tensor).item<double>());
}

}  // namespace capstan::optim
