#include "distributed/name_patterns.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

bool fits(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

bool NamePatterns::fit(const std::string& name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return fits(pattern, name); });
}

NamedTensors NamePatterns::others(const NamedTensors& tensors) const {
  for (const std::string& pattern : patterns_) {
    if (std::none_of(tensors.begin(), tensors.end(),
                     [&](const auto& entry) { return fits(pattern, entry.first); })) {
      raise<ValueError>("[exclude] no name fits the pattern '{}'", pattern);
    }
  }
  NamedTensors rest;
  for (const auto& entry : tensors) {
    if (!fit(entry.first)) rest.push_back(entry);
  }
  return rest;
}

}  // namespace capstan::distributed
