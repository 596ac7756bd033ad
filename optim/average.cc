#include "optim/average.h"

#include <algorithm>
#include <set>

#include "autograd/arithmetic.h"
#include "autograd/node.h"
#include "core/raise.h"
#include "core/state.h"
#include "core/updates.h"
#include "optim/check.h"

namespace capstan::optim {
namespace {

void check_step(const char* average, int64_t step) {
  if (step < 0) raise<ValueError>("[{}] steps count from 0, got {}", average, step);
}

}  // namespace

double Ema::operator()(int64_t step) const {
  check_step("ema", step);
  check_fraction("ema", "decay", decay);
  const double steps = static_cast<double>(step);
  return 1 - std::min(decay, (1 + steps) / (10 + steps));
}

double Swa::operator()(int64_t step) const {
  check_step("swa", step);
  if (start < 0 || every < 1) {
    raise<ValueError>("[swa] start must be at least 0 and every at least 1, got {} and {}", start,
                      every);
  }
  if (step < start || (step - start) % every != 0) return 0;
  return 1 / static_cast<double>((step - start) / every + 1);
}

AveragedWeights::AveragedWeights(NamedTensors weights, AverageShare share)
    : weights_(std::move(weights)), share_(std::move(share)) {
  if (!share_) raise<ValueError>("[average] what kind of average is not said: Ema, Swa, ...");
  std::set<std::string> names;
  for (const auto& [name, weight] : weights_) {
    if (!names.insert(name).second) raise<ValueError>("[average] two weights are named '{}'", name);
    if (!is_floating(weight.dtype())) {
      raise<DtypeError>("[average] weight '{}' must be floating point, got {}", name,
                        weight.dtype());
    }
    if (!weight.is_contiguous()) {
      raise<ValueError>("[average] weight '{}' of {} must be contiguous", name, weight.shape());
    }
    averages_.emplace_back(name,
                           empty(weight.shape(), {compute_dtype(weight.dtype()), weight.device()}));
    copy_elements(weight, averages_.back().second);
  }
}

void AveragedWeights::update(int64_t step) {
  refuse_while_swapped("update");
  const double share = share_(step);
  if (!(share >= 0 && share <= 1)) {
    raise<ValueError>("[average] the share of a step must be in [0, 1], got {} at step {}", share,
                      step);
  }
  if (share == 0) return;
  std::vector<Update> updates;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor& average = averages_[i].second;
    updates.push_back(
        {AverageRule{share}, average, cast(detach(weights_[i].second), average.dtype())});
  }
  apply_updates(updates);
}

void AveragedWeights::load_state(const std::map<std::string, Tensor>& state) {
  refuse_while_swapped("load_state");
  copy_state("load_state", "average", averages_, state);
}

void AveragedWeights::refuse_while_swapped(const char* operation) const {
  if (!swapped_) return;
  raise<ValueError>("[average.{}] the model has the averages as its weights: end the swap first",
                    operation);
}

AveragedWeights::Swap::Swap(AveragedWeights& average) : average_(average) {
  average_.refuse_while_swapped("swap_in");
  for (const auto& [_, weight] : average_.weights_) own_.push_back(dense_copy(weight));
  for (size_t i = 0; i < own_.size(); ++i) {
    copy_elements(average_.averages_[i].second, average_.weights_[i].second);
  }
  average_.swapped_ = true;
}

AveragedWeights::Swap::~Swap() {
  for (size_t i = 0; i < own_.size(); ++i) copy_elements(own_[i], average_.weights_[i].second);
  average_.swapped_ = false;
}

}  // namespace capstan::optim
