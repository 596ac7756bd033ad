// Defines groups of parameters that differ in their options, and OptimizerOf, from which all
// optimizers are derived: it gives each parameter the options of its group.
//
//   AdamW adamw(model.parameters(), {.weight_decay = 0.1},
//               {{biases_and_norms, no_weight_decay}, {under("head"), nullptr, 10}});
//
// A group changes the options of the whole, so what it does not mention stays. A parameter belongs
// to the first group that takes it. Groups change what happens to a parameter, never its name in
// the state: a run may be continued with others.
#pragma once

#include <functional>

#include "optim/optimizer.h"

namespace capstan::optim {

/// Which parameters a group takes.
using Selector = std::function<bool(const std::string& name, const Tensor& parameter)>;

/// Takes parameters of at most one axis, which are the biases and the weights of normalisations.
bool biases_and_norms(const std::string& name, const Tensor& parameter);
/// Takes the parameter or all parameters of the module at `path`: "head" takes "head.weight".
Selector under(std::string path);

/// Those parameters that `takes` takes, for two optimizers side by side.
NamedTensors filter(const NamedTensors& parameters, const Selector& takes);

/// For Group::change. Weight decay is commonly left out for biases_and_norms.
inline constexpr auto no_weight_decay = [](auto& options) { options.weight_decay = 0; };

template <class Options>
struct Group {
  Selector takes;
  std::function<void(Options&)> change = nullptr;
  double rate_scale = 1;  // times the rate of the step
};
template <class Options>
using Groups = std::vector<Group<Options>>;

/// For each parameter the first selector that takes it, or -1. Throws ValueError for a selector
/// that is empty or takes none.
std::vector<int> assign_groups(const NamedTensors& parameters,
                               const std::vector<Selector>& selectors);

template <class Options>
class OptimizerOf : public Optimizer {
 protected:
  /// Throws ValueError for options that make no sense.
  using Check = void (*)(const Options& options);
  /// What to keep for a parameter, by name, as it is before the first step.
  using Keep = NamedTensors (*)(const Options& options, const Tensor& parameter);

  /// Throws as Optimizer, assign_groups() and `check` do.
  OptimizerOf(const Kind& kind, NamedTensors parameters, const Options& options,
              const Groups<Options>& groups, Check check, Keep keep);

  /// As Optimizer::update(), with the options of the parameter's group.
  virtual Update update(const Options& options, const Turn& turn) = 0;

 private:
  struct Setting {
    Options options;
    double rate_scale = 1;
  };

  Update update(size_t index, const Turn& turn) final {
    const Setting& setting = settings_[index];
    return update(setting.options, {turn.rate * setting.rate_scale, turn.step, turn.parameter,
                                    turn.grad, turn.kept});
  }

  std::vector<Setting> settings_;  // one a parameter
};

template <class Options>
OptimizerOf<Options>::OptimizerOf(const Kind& kind, NamedTensors parameters, const Options& options,
                                  const Groups<Options>& groups, Check check, Keep keep)
    : Optimizer(kind, std::move(parameters)) {
  check(options);
  std::vector<Selector> selectors;
  std::vector<Setting> choices;
  for (const Group<Options>& group : groups) {
    selectors.push_back(group.takes);
    choices.push_back({options, group.rate_scale});
    if (group.change) group.change(choices.back().options);
    check(choices.back().options);
    check_not_negative("optimizer", "the rate scale of a group", group.rate_scale);
  }
  const std::vector<int> assigned = assign_groups(this->parameters(), selectors);
  for (size_t i = 0; i < assigned.size(); ++i) {
    settings_.push_back(assigned[i] < 0 ? Setting{options} : choices[assigned[i]]);
    add_state(i, keep(settings_[i].options, stepped(i)));
  }
}

/// Zeros like the parameter, one tensor a name: what most optimizers keep.
NamedTensors zeros_beside(const Tensor& parameter, std::initializer_list<const char*> names);

}  // namespace capstan::optim
