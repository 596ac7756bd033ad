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

ExactSum sum_over(const ExactSum& mine, Communicator& ranks) {
  if (ranks.size() == 1) return mine;
  ExactSum::Digits digits = mine.digits();
  const Tensor words = from_vector<int64_t>({digits.begin(), digits.end()}, {std::ssize(digits)});
  ranks.all_reduce(words, Reduce::sum, "squares of gradients").wait();
  std::copy_n(words.data<int64_t>(), digits.size(), digits.begin());
  ExactSum all;
  all.add(digits);
  return all;
}

double grad_norm(const NamedTensors& counted, Communicator& ranks) {
  return std::sqrt(sum_over(optim::squares_of_gradients(counted), ranks).value());
}

double clip_grad_norm(const NamedTensors& parameters, const NamedTensors& counted, double limit,
                      Communicator& ranks) {
  if (!(limit > 0)) raise<ValueError>("[clip_grad_norm] the limit must be above 0, got {}", limit);
  const ExactSum squares = sum_over(optim::squares_of_gradients(counted), ranks);
  return clip_grad_norm(parameters, squares, limit, ranks);
}

double clip_grad_norm(const NamedTensors& parameters, const ExactSum& squares, double limit,
                      Communicator& ranks) {
  if (!(limit > 0)) raise<ValueError>("[clip_grad_norm] the limit must be above 0, got {}", limit);
  const double norm = std::sqrt(squares.value());
  if (!std::isfinite(norm)) {
    ranks.together("gradients", [&] {
      if (const std::string* name = find_not_finite(parameters)) {
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
