#include "nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/costs.h"

namespace capstan::nn::detail {

namespace {

/// 1234567 as "1,234,567".
std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

}  // namespace

std::string summarize(Module& copy, const std::function<void()>& run) {
  copy.to(Device::meta());
  copy.eval();
  const auto modules = copy.modules();

  CountCosts costs;
  std::unordered_map<const Module*, std::string> shapes;
  std::unordered_map<const Module*, int64_t> flops;
  std::vector<HookHandle> hooks;
  for (const auto& [_, module] : modules) {
    hooks.push_back(module->before_forward.add([&](Module& m) { flops[&m] -= costs.flops(); }));
    hooks.push_back(module->after_forward.add([&](Module& m, std::span<const Tensor> outputs) {
      shapes[&m] = outputs.empty() ? "" : to_string(outputs[0].shape());
      flops[&m] += costs.flops();
    }));
  }
  no_grad(run);

  // A parameter belongs to the module with the longest name that its own begins with.
  std::unordered_map<std::string, int64_t> counts;
  for (const auto& [name, parameter] : copy.parameters()) {
    const std::string* owner = nullptr;
    for (const auto& [prefix, _] : modules) {
      const bool fits = prefix.empty() || name.starts_with(prefix + ".");
      if (fits && (!owner || prefix.size() > owner->size())) owner = &prefix;
    }
    counts[*owner] += parameter.numel();
  }

  std::vector<std::array<std::string, 5>> rows = {
      {"module", "type", "output", "parameters", "FLOPs"}};
  for (const auto& [name, module] : modules) {
    const size_t depth = std::count(name.begin(), name.end(), '.') + !name.empty();
    const std::string label = name.empty() ? "(model)" : name.substr(name.rfind('.') + 1);
    const auto count = counts.find(name);
    rows.push_back({std::string(2 * depth, ' ') + label, module->type_name(), shapes[module],
                    count == counts.end() ? "" : with_commas(count->second),
                    flops.contains(module) ? with_commas(flops[module]) : ""});
  }
  std::array<size_t, 5> widths = {};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    table += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", row[0], widths[0], row[1],
                         widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4]);
  }
  return table + "parameters: " + with_commas(copy.parameter_count()) + "\n";
}

}  // namespace capstan::nn::detail
