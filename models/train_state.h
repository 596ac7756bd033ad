// Defines TrainState, everything that the next step of a run depends on, and its checkpoints.
//
// The rate is a function of the step, the loader's place one of the samples consumed, and dropout
// one of seed, step and rank, so none of them is saved: N steps, a save, a load and M steps give
// the bits of N + M steps on the same number of ranks. On another number the run goes on as well.
//
// A checkpoint is a folder:
//
//   latest.json          the manifest: the run, where it stands, the slot, and SHA-256 sums of the
//                        slot's files and of the manifest itself
//   a/, b/               two slots, each with model.safetensors and optimizer.safetensors
//
// A save fills the slot that the manifest does not name and then replaces the manifest in one
// rename. A crash at any moment leaves a manifest whose slot is complete.
#pragma once

#include <string>
#include <vector>

#include "distributed/comm/communicator.h"
#include "nn/module.h"
#include "optim/optimizer.h"

namespace capstan::models {

struct TrainState {
  nn::Module& model;
  optim::Optimizer& optimizer;

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

  /// The manifest and the slots: what saves in `folder` replace.
  static std::vector<std::string> paths(const std::string& folder);

  /// Makes the folder, if need be. Throws IoError if a save could not write there.
  static void prepare(const std::string& folder);

  /// Writes a checkpoint, and removes what a save that was killed left there. For one rank; throws
  /// IoError if the disk refuses.
  void save(const std::string& folder) const;

  /// Continues from a checkpoint, which only rank 0 reads. A collective: all ranks get the place of
  /// the run and the optimizer's state; the weights reach them with the Ddp, which sends them in
  /// any case. Every rank throws SharedError if there is no checkpoint, if a file is damaged or
  /// missing, or if it is of another run.
  void load(const std::string& folder, distributed::Communicator& communicator);
};

}  // namespace capstan::models
