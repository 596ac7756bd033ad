#include "optim/grad_scaler.h"

#include <cmath>

#include "autograd/elementwise.h"
#include "core/raise.h"
#include "core/state.h"
#include "optim/check.h"
#include "optim/measures.h"

namespace capstan::optim {

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options),
      state_{{"scale", full({}, options.start, {.dtype = Dtype::float64})},
             {"finite_steps", zeros({}, {.dtype = Dtype::int64})}} {
  check_positive("grad_scaler", "start", options.start);
  check_positive("grad_scaler", "backoff", options.backoff);
  check_fraction("grad_scaler", "backoff", options.backoff);
  if (!(options.growth >= 1 && std::isfinite(options.growth))) {
    raise<ValueError>("[grad_scaler] growth must be a number >= 1, got {}", options.growth);
  }
  if (options.interval < 1) {
    raise<ValueError>("[grad_scaler] interval must be at least 1, got {}", options.interval);
  }
}

double GradScaler::factor() const { return *state_[0].second.data<double>(); }

Tensor GradScaler::scale(const Tensor& loss) const { return loss * factor(); }

bool GradScaler::unscale(const NamedTensors& parameters) const {
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad() && !all_finite(parameter.grad())) return false;
  }
  for (const auto& [_, parameter] : parameters) {
    if (parameter.has_grad()) scale_elements(parameter.grad(), 1 / factor());
  }
  return true;
}

void GradScaler::update(bool finite) {
  double& scale = *state_[0].second.mutable_data<double>();
  int64_t& finite_steps = *state_[1].second.mutable_data<int64_t>();
  if (!finite) {
    if (scale * options_.backoff == 0) {
      raise<ValueError>(
          "[grad_scaler] the scale would fall to 0: the loss or its gradients are not finite "
          "whatever the scale");
    }
    scale *= options_.backoff;
    finite_steps = 0;
  } else if (++finite_steps >= options_.interval) {
    if (std::isfinite(scale * options_.growth)) scale *= options_.growth;
    finite_steps = 0;
  }
}

void GradScaler::load_state(const std::map<std::string, Tensor>& state) {
  check_state("load_state", "scaler", state_, state);
  check_positive("load_state", "scale", state.at("scale").item<double>());
  const int64_t steps = state.at("finite_steps").item<int64_t>();
  if (steps < 0) raise<ValueError>("[load_state] finite_steps must be at least 0, got {}", steps);
  copy_state("load_state", "scaler", state_, state);
}

}  // namespace capstan::optim
