// Defines the strategy in which every rank, or group of tensor-parallel ranks, runs a stage of the
// model; the batches of a step are the microbatches.
#pragma once

#include "models/strategy.h"

namespace capstan::models {

/// For make_strategy(), which says what is thrown.
std::unique_ptr<Strategy> make_pipelined_model(const TrainOptions& options, Task& task,
                                               const Axes& axes);

}  // namespace capstan::models
