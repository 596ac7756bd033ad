#include "optim/check.h"

#include <cmath>
#include <map>
#include <set>

#include "autograd/node.h"
#include "core/raise.h"

namespace capstan::optim {

void check_fraction(const char* owner, const char* option, double value) {
  if (value >= 0 && value < 1) return;
  raise<ValueError>("[{}] {} must be in [0, 1), got {}", owner, option, value);
}

void check_positive(const char* owner, const char* option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  raise<ValueError>("[{}] {} must be a number above 0, got {}", owner, option, value);
}

void check_not_negative(const char* owner, const char* option, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  raise<ValueError>("[{}] {} must be a number >= 0, got {}", owner, option, value);
}

void check_parameters(const Kind& optimizer, const NamedTensors& parameters) {
  std::set<std::string> names;
  std::map<const TensorBody*, std::string> bodies;
  for (const auto& [name, parameter] : parameters) {
    if (!names.insert(name).second) {
      raise<ValueError>("[optimizer] two parameters are named '{}'", name);
    }
    const auto [earlier, is_new] = bodies.emplace(&parameter.body(), name);
    if (!is_new) {
      raise<ValueError>("[optimizer] '{}' and '{}' are one parameter: name it once",
                        earlier->second, name);
    }
    if (!is_floating(parameter.dtype())) {
      raise<DtypeError>("[optimizer] parameter '{}' must be floating point, got {}", name,
                        parameter.dtype());
    }
    if (parameter.requires_grad() && !static_cast<Node&>(*parameter.node()).is_leaf()) {
      raise<GradientError>("[optimizer] '{}' is the result of an operation, not a parameter", name);
    }
    if (!parameter.is_contiguous()) {
      raise<ValueError>("[optimizer] parameter '{}' of {} must be contiguous", name,
                        parameter.shape());
    }
  }
  if (optimizer.sees == Sees::elements) return;
  check_whole(optimizer.name, parameters,
              "take one that works element by element (sgd, adamw, ...), or keep it whole");
}

void check_whole(const char* owner, const NamedTensors& parameters, const char* instead) {
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad() || !accumulator(parameter).part_of_whole) continue;
    raise<ValueError>("[{}] '{}' is one rank's part of a parameter, and {} looks at all of it: {}",
                      owner, name, owner, instead);
  }
}

void check_reduced(const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.requires_grad() && accumulator(parameter).unreduced) {
      raise<GradientError>(
          "[optimizer.step] the gradient of '{}' is this rank's share only: its backward passes "
          "did not reduce; end the window with a reducing one",
          name);
    }
  }
}

}  // namespace capstan::optim
