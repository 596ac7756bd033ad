// Implements NanCheck.
#include "distributed/nan_check.h"

#include "autograd/elementwise.h"
#include "autograd/node.h"
#include "autograd/reduce.h"
#include "core/raise.h"
#include "optim/measures.h"

namespace capstan::distributed {

void NanCheck::look(const NamedTensors& gradients) {
  const NoGrad guard;
  for (const auto& [name, gradient] : gradients) {
    if (optim::all_finite(gradient)) continue;
    if (first_.empty()) {
      first_ =
          fmt::format("'{}' ({})", name, any(isnan(gradient)).item<bool>() ? "NaN" : "infinite");
    } else {
      ++more_;
    }
    fill_elements(gradient, 0);
  }
}

void NanCheck::verdict(Communicator& communicator) {
  std::string mine = std::exchange(first_, {});
  if (const int64_t more = std::exchange(more_, 0)) mine += fmt::format(" and {} more", more);
  const std::vector<std::string> all = communicator.all_gather_strings(mine, "check for NaN");
  std::string text;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    text += fmt::format("{} rank {}: {}", text.empty() ? "" : ",", r, all[r]);
  }
  if (!text.empty()) {
    raise<GradientError>("[backward] gradients are not finite,{}; call zero_grad() to go on", text);
  }
}

}  // namespace capstan::distributed
