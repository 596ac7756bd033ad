#include "optim/clip.h"

#include <cmath>

#include "core/backend.h"
#include "core/raise.h"

namespace capstan::optim {

double grad_norm(const NamedTensors& parameters) {
  double squares = 0;
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad()) squares += backend(parameter).sum_of_squares(parameter.grad());
  }
  return std::sqrt(squares);
}

double clip_grad_norm(const NamedTensors& parameters, double limit) {
  if (!(limit > 0)) raise<ValueError>("[clip_grad_norm] the limit must be above 0, got {}", limit);
  const double norm = grad_norm(parameters);
  if (!std::isfinite(norm)) {
    for (const auto& [name, parameter] : parameters) {
      if (parameter.has_grad() &&
          !std::isfinite(backend(parameter).sum_of_squares(parameter.grad()))) {
        raise<ValueError>("[clip_grad_norm] the gradient of '{}' is not finite", name);
      }
    }
    raise<ValueError>("[clip_grad_norm] the gradients' norm is beyond float64");
  }
  const double scale = limit / (norm + 1e-6);  // the margin that PyTorch adds too
  if (scale >= 1) return norm;
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad()) scale_elements(parameter.grad(), scale);
  }
  return norm;
}

}  // namespace capstan::optim
