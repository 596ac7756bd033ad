// Defines NamePatterns, with which strategies are told what to leave alone: "head.*", "*.bias".
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"

namespace capstan::distributed {

/// Patterns as of a shell: * stands for any characters, ? for one, [ab] for one of them.
class NamePatterns {
 public:
  NamePatterns() = default;
  explicit NamePatterns(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  /// True if one of the patterns fits the whole name.
  bool fit(const std::string& name) const;
  /// The tensors whose names they do not fit. Throws ValueError for a pattern that fits none.
  NamedTensors others(const NamedTensors& tensors) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace capstan::distributed
