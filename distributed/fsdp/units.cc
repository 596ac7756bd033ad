// Implements the policies, then plan_units().
#include "distributed/fsdp/units.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/raise.h"
#include "distributed/name_patterns.h"

namespace capstan::distributed {
namespace {

/// Calls back for each parameter a module has itself, under all its names.
class OwnParameters : public nn::MemberVisitor {
 public:
  explicit OwnParameters(nn::Module& module) { module.visit_members(*this); }
  void parameter(const std::string&, nn::Parameter& parameter) override {
    found.push_back(parameter);
  }
  void buffer(const std::string&, nn::Buffer&) override {}
  void module(const std::string&, nn::Module&) override {}

  std::vector<Tensor> found;
};

/// True if module `inner` is `outer` or lies in it.
bool lies_in(const std::string& inner, const std::string& outer) {
  return outer.empty() || inner == outer || inner.starts_with(outer + ".");
}

/// The innermost of `units` around a module.
const std::string& unit_of(const std::string& module, const std::set<std::string>& units) {
  const std::string* found = nullptr;
  for (const std::string& unit : units) {
    if (lies_in(module, unit) && (!found || unit.size() > found->size())) found = &unit;
  }
  return *found;
}

/// Those of `names`, parents before children, that lie in no other.
std::vector<std::string> outermost(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (std::ranges::none_of(found, [&](const std::string& outer) { return lies_in(name, outer); }))
      found.push_back(name);
  }
  return found;
}

}  // namespace

UnitPolicy repeated_units() {
  return [](nn::Module& model) {
    std::vector<std::string> numbered;
    for (const auto& [name, _] : model.modules()) {
      const std::string last = name.substr(name.rfind('.') + 1);
      if (!last.empty() &&
          std::ranges::all_of(last, [](unsigned char c) { return std::isdigit(c); }))
        numbered.push_back(name);
    }
    return outermost(numbered);
  };
}

UnitPolicy units_of_type(std::vector<std::string> types) {
  return [types = std::move(types)](nn::Module& model) {
    std::vector<std::string> chosen;
    std::set<std::string> seen;
    for (const auto& [name, module] : model.modules()) {
      seen.insert(module->type_name());
      if (std::ranges::count(types, module->type_name()) > 0) chosen.push_back(name);
    }
    for (const std::string& type : types) {
      if (!seen.contains(type)) {
        raise<ValueError>("[units] the model has no module of type '{}', but of: {}", type,
                          fmt::join(seen, ", "));
      }
    }
    return chosen;
  };
}

UnitPolicy units_named(std::vector<std::string> patterns) {
  return [patterns = std::move(patterns)](nn::Module& model) {
    std::vector<std::string> chosen;
    for (const std::string& pattern : patterns) {
      const NamePatterns fits({pattern});
      std::vector<std::string> fitting;
      for (const auto& [name, _] : model.modules()) {
        if (fits.fit(name)) fitting.push_back(name);
      }
      if (fitting.empty()) raise<ValueError>("[units] no module's name fits '{}'", pattern);
      for (std::string& name : outermost(fitting)) chosen.push_back(std::move(name));
    }
    return chosen;
  };
}

UnitPolicy units_of_size(int64_t elements) {
  return [elements](nn::Module& model) {
    if (elements < 1) raise<ValueError>("[units] units have 1 element or more, got {}", elements);
    std::vector<std::string> chosen;
    std::set<const TensorBody*> taken;
    const auto modules = model.modules();
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {  // children first
      std::vector<const TensorBody*> left;
      int64_t count = 0;
      for (const auto& [_, parameter] : module->second->parameters()) {
        if (taken.contains(&parameter.body())) continue;
        left.push_back(&parameter.body());
        count += parameter.numel();
      }
      if (count < elements) continue;
      chosen.push_back(module->first);
      taken.insert(left.begin(), left.end());
    }
    return chosen;
  };
}

std::vector<UnitPlan> plan_units(nn::Module& model, const UnitPolicy& policy) {
  const std::vector<std::string> chosen = policy(model);
  std::set<std::string> names(chosen.begin(), chosen.end());
  names.insert("");

  const auto modules = model.modules();
  std::map<const TensorBody*, std::string> owner;  // the unit of each parameter
  for (const auto& [name, module] : modules) {
    for (const Tensor& parameter : OwnParameters(*module).found) {
      const std::string& here = unit_of(name, names);
      std::string& unit = owner.try_emplace(&parameter.body(), here).first->second;
      while (!lies_in(here, unit)) {  // shared: outwards, until both lie in it
        const size_t dot = unit.rfind('.');
        unit = unit_of(dot == std::string::npos ? "" : unit.substr(0, dot), names);
      }
    }
  }

  const NamedTensors parameters = model.parameters();
  std::vector<UnitPlan> plan;
  for (const auto& [name, module] : modules) {
    if (!names.contains(name)) continue;
    UnitPlan unit{name, module, {}};
    for (const auto& entry : parameters) {
      if (owner.at(&entry.second.body()) == name) unit.parameters.push_back(entry);
    }
    if (!unit.parameters.empty()) plan.push_back(std::move(unit));
  }
  return plan;
}

std::string to_string(const std::vector<UnitPlan>& units) {
  std::string text;
  for (const UnitPlan& unit : units) {
    int64_t elements = 0;
    for (const auto& [_, parameter] : unit.parameters) elements += parameter.numel();
    text +=
        fmt::format("{} {}: {} parameters, {} elements\n", unit.name.empty() ? "root" : unit.name,
                    unit.module->type_name(), unit.parameters.size(), elements);
  }
  return text;
}

}  // namespace capstan::distributed
