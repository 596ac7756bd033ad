#include "optim/groups.h"

#include "core/raise.h"

namespace capstan::optim {

bool biases_and_norms(const std::string&, const Tensor& parameter) { return parameter.rank() <= 1; }

Selector under(std::string path) {
  return [path = std::move(path)](const std::string& name, const Tensor&) {
    return name == path || name.starts_with(path + ".");
  };
}

NamedTensors filter(const NamedTensors& parameters, const Selector& takes) {
  NamedTensors taken;
  for (const auto& [name, parameter] : parameters) {
    if (takes(name, parameter)) taken.emplace_back(name, parameter);
  }
  return taken;
}

std::vector<int> assign_groups(const NamedTensors& parameters,
                               const std::vector<Selector>& selectors) {
  std::vector<int> assigned(parameters.size(), -1);
  for (size_t g = 0; g < selectors.size(); ++g) {
    if (!selectors[g]) raise<ValueError>("[optimizer] group {} does not say what it takes", g);
    bool any = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (assigned[i] >= 0 || !selectors[g](parameters[i].first, parameters[i].second)) continue;
      assigned[i] = static_cast<int>(g);
      any = true;
    }
    if (!any) {
      raise<ValueError>(
          "[optimizer] group {} takes no parameter, or only such as an earlier group took: leave "
          "it out, or correct what it takes",
          g);
    }
  }
  return assigned;
}

NamedTensors zeros_beside(const Tensor& parameter, std::initializer_list<const char*> names) {
  NamedTensors kept;
  for (const char* name : names) {
    kept.emplace_back(name, zeros(parameter.shape(), {parameter.dtype(), parameter.device()}));
  }
  return kept;
}

}  // namespace capstan::optim
