// Defines the strategy in which every rank, or group of tensor-parallel ranks, runs the whole model
// on its part of each batch.
#pragma once

#include "models/strategy.h"

namespace capstan::models {

/// For make_strategy(), which says what is thrown.
std::unique_ptr<Strategy> make_whole_model(const TrainOptions& options, Task& task,
                                           const Axes& axes, const std::vector<int>& order);

}  // namespace capstan::models
