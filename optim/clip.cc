#include "optim/clip.h"

#include <cmath>

#include "core/backend.h"
#include "core/raise.h"
#include "optim/check.h"
#include "optim/measures.h"

namespace capstan::optim {

ExactSum squares_of_gradients(const NamedTensors& parameters) {
  ExactSum squares;
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad()) add_squares(parameter.grad(), squares);
  }
  return squares;
}

double grad_norm(const NamedTensors& parameters) {
  check_whole("grad_norm", parameters, "ask the strategy, or distributed/clip.h");
  return std::sqrt(squares_of_gradients(parameters).value());
}

double clip_grad_norm(const NamedTensors& parameters, double limit) {
  if (!(limit > 0)) raise<ValueError>("[clip_grad_norm] the limit must be above 0, got {}", limit);
  const double norm = grad_norm(parameters);
  if (!std::isfinite(norm)) {
    for (const auto& [name, parameter] : parameters) {
      if (parameter.has_grad() && !all_finite(parameter.grad())) {
        raise<ValueError>("[clip_grad_norm] the gradient of '{}' is not finite", name);
      }
    }
    raise<ValueError>("[clip_grad_norm] the gradients' norm is beyond float64");
  }
  scale_to_norm(parameters, norm, limit);
  return norm;
}

void scale_to_norm(const NamedTensors& parameters, double norm, double limit) {
  const double scale = limit / (norm + 1e-6);  // the margin that PyTorch adds too
  if (scale >= 1) return;
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad()) scale_elements(parameter.grad(), scale);
  }
}

void clip_grad_value(const NamedTensors& parameters, double limit) {
  check_positive("clip_grad_value", "the limit", limit);
  for (const auto& [name, parameter] : parameters) {
    if (parameter.has_grad() && !all_finite(parameter.grad())) {
      raise<ValueError>("[clip_grad_value] the gradient of '{}' is not finite", name);
    }
  }
  for (const auto& [_, parameter] : parameters) {
    if (!parameter.has_grad()) continue;
    const Tensor& grad = parameter.grad();
    Backend& kernels = backend(grad);
    const auto bound = [&](double value) {
      const Tensor one = full({}, value, {grad.dtype(), grad.device()});
      return view_of(one, one.layout().expanded(grad.shape()));
    };
    kernels.binary(Binary::minimum, grad, bound(limit), grad);
    kernels.binary(Binary::maximum, grad, bound(-limit), grad);
  }
}

}  // namespace capstan::optim
