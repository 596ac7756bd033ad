#include "distributed/clip.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"
#include "optim/clip.h"
#include "optim/measures.h"

namespace capstan::distributed {
namespace {

/// The first parameter whose gradient is not finite; null if all are.
const std::string* find_not_finite(const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.has_grad() && !optim::all_finite(parameter.grad())) return &name;
  }
  return nullptr;
}

}  // namespace

double grad_norm(const NamedTensors& counted, Communicator& ranks) {
  ExactSum squares = optim::squares_of_gradients(counted);
  if (ranks.size() > 1) {
    ExactSum::Digits digits = squares.digits();
    const Tensor words = from_vector<int64_t>({digits.begin(), digits.end()}, {std::ssize(digits)});
    ranks.all_reduce(words, Reduce::sum, "squares of gradients").wait();
    std::copy_n(words.data<int64_t>(), digits.size(), digits.begin());
    squares = {};
    squares.add(digits);
  }
  return std::sqrt(squares.value());
}

double clip_grad_norm(const NamedTensors& parameters, const NamedTensors& counted, double limit,
                      Communicator& ranks) {
  if (!(limit > 0)) raise<ValueError>("[clip_grad_norm] the limit must be above 0, got {}", limit);
  const double norm = grad_norm(counted, ranks);
  if (!std::isfinite(norm)) {
    ranks.together("gradients", [&] {
      if (const std::string* name = find_not_finite(counted)) {
        raise<ValueError>("[clip_grad_norm] the gradient of '{}' is not finite", *name);
      }
    });
    raise<ValueError>("[clip_grad_norm] the gradients' norm is beyond float64");
  }
  optim::scale_to_norm(parameters, norm, limit);
  return norm;
}

bool unscale(const optim::GradScaler& scaler, const NamedTensors& parameters, Communicator& ranks) {
  const Tensor finite = full({}, find_not_finite(parameters) ? 0 : 1, {.dtype = Dtype::uint8});
  ranks.all_reduce(finite, Reduce::min, "all gradients are finite").wait();
  return finite.item<int>() == 1 && scaler.unscale(parameters);
}

}  // namespace capstan::distributed
