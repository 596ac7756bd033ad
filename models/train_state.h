// Defines TrainState, everything that the next step of a run depends on beside the numbers in its
// tensors.
//
// The rate is a function of the step, the loader's place one of the samples consumed, and dropout
// one of seed, step and rank, so none of them is saved: N steps, a save, a load and M steps give
// the bits of N + M steps on the same number of ranks. On another number the run goes on as well.
//
// What is here travels as the text that a checkpoint has of its run; the tensors, as the pieces of
// model and optimizer that each rank holds (distributed/checkpoint/manifest.h has the format).
#pragma once

#include <string>
#include <vector>

#include "distributed/checkpoint/load.h"
#include "distributed/comm/communicator.h"

namespace capstan::models {

struct TrainState {
  /// What the run is. A checkpoint continues only a run that has the same.
  struct Run {
    std::string model;
    std::string optimizer;
    uint64_t seed = 0;
    int64_t training_samples = 0;
  };
  Run run;

  // Where it stands.
  int64_t step = 0;                      // optimizer steps taken
  int64_t samples = 0;                   // consumed by them, over all ranks
  std::vector<int> gradient_order = {};  // Ddp's; sums over ranks depend on it in their last bit

  /// For Saver::save().
  Metadata metadata() const;

  /// Takes the place of the run in `folder`, and returns the manifest, with which
  /// distributed::load() fills the pieces. A collective: every rank throws SharedError if there is
  /// no checkpoint, if its manifest is damaged, or if it is of another run.
  distributed::Manifest resume(const std::string& folder, distributed::Communicator& communicator);
};

}  // namespace capstan::models
