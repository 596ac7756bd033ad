// Defines how a model is cut into units, the parts that are gathered and released together: a pure
// function of the model and a policy, so that every rank knows the plan of all.
//
// A unit is a module with all parameters below it that no unit further in has taken. What is left
// is the root unit. Small units save memory, since only a few are whole at a time; large ones send
// fewer, longer messages. A block of a Transformer is about right.
//
// A parameter that modules of different units share (a tied embedding) goes to the innermost unit
// around all of them: that one is gathered while any of them runs. A parameter that is read past
// its module (as Gpt reads its table of positions) must not be in a unit of that module: reading it
// throws, since only calling the module gathers it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace capstan::distributed {

/// Chooses modules by their names ("blocks.2"); the root, "", is a unit anyway. Throws ValueError
/// if it makes no sense for this model.
using UnitPolicy = std::function<std::vector<std::string>(nn::Module&)>;

/// The outermost modules that are numbered, as those of a ModuleList or a Sequential are
/// ("blocks.2"): most models repeat their bulk so. None where there are none.
UnitPolicy repeated_units();
/// Modules of these types ("GptBlock"). Throws for a type that the model does not have.
UnitPolicy units_of_type(std::vector<std::string> types);
/// The outermost modules whose names fit a pattern, for each of these ("encoder.*"; see
/// NamePatterns). Throws for a pattern that fits none.
UnitPolicy units_named(std::vector<std::string> patterns);
/// From the innermost modules outwards, every module that has at least so many elements left.
/// Throws for a number below 1.
UnitPolicy units_of_size(int64_t elements);

/// One unit.
struct UnitPlan {
  std::string name;         // of its module; "" for the root
  nn::Module* module;       // whose forward needs it
  NamedTensors parameters;  // in the model's order, each under its first name
};

/// The units of a model, outer before inner, otherwise in the model's order; those without
/// parameters are left out. Throws as the policy does.
std::vector<UnitPlan> plan_units(nn::Module& model, const UnitPolicy& policy);

/// A line for each unit: name, type, parameters, elements.
std::string to_string(const std::vector<UnitPlan>& units);

}  // namespace capstan::distributed
