#include "optim/sgd.h"

#include <cmath>

#include "core/backend.h"
#include "core/raise.h"

namespace capstan::optim {

Sgd::Sgd(NamedTensors parameters, SgdOptions options)
    : Optimizer(std::move(parameters), options.momentum > 0 ? std::vector<std::string>{"momentum"}
                                                            : std::vector<std::string>{}),
      options_(options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    raise<ValueError>("[sgd] momentum must be in [0, 1), got {}", options.momentum);
  }
  if (!(options.weight_decay >= 0 && std::isfinite(options.weight_decay))) {
    raise<ValueError>("[sgd] weight decay must be a number >= 0, got {}", options.weight_decay);
  }
  if (options.nesterov && options.momentum == 0) {
    raise<ValueError>("[sgd] Nesterov needs a momentum above 0");
  }
}

void Sgd::update(double rate, int64_t, const Tensor& parameter, const Tensor& grad,
                 const std::vector<Tensor>& kept) {
  backend(parameter).sgd({.rate = rate,
                          .momentum = options_.momentum,
                          .weight_decay = options_.weight_decay,
                          .nesterov = options_.nesterov},
                         parameter, grad, kept.empty() ? nullptr : &kept[0]);
}

}  // namespace capstan::optim
