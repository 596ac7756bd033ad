// Defines TrainOptions, what a user may ask of any training run, and how it is read from a command
// line together with what a program adds to it (image_options.h is an example).
#pragma once

#include "models/option_reader.h"
#include "models/rank_layout.h"

namespace capstan::models {

/// Enough for 16 ranks, or for 4 ranks with 4 passes each.
inline constexpr int64_t kVirtualShards = 16;

struct TrainOptions {
  double dropout = 0;             // probability of zeroing, in [0, 1)
  std::string dtype = "float32";  // or "float64", "bfloat16": of weights and gradients
  bool autocast = false;          // products in bfloat16
  uint64_t seed = 0;              // of weights, order of samples and dropout

  // Length. The rate follows one schedule over all epochs; `steps` ends this run within it (or
  // later, and the schedule with it), so that stopping and resuming do not change any rate.
  int64_t epochs = 5;
  std::optional<int64_t> steps;

  // Samples of one optimizer step: batch * accumulate * ranks, or global_batch.
  int64_t batch = 64;  // of one forward pass on one rank
  std::optional<int64_t> global_batch;
  int64_t accumulate = 1;               // forward and backward passes of one step, at least
  std::optional<int64_t> microbatches;  // the same, of a pipeline; else 4 a stage
  // Virtual shards of a step, 0 for none: see virtual_shards().
  std::optional<int64_t> reproducible;

  // Optimizer. What is left open is chosen by its name; see defaults in train_options.cc.
  std::string optimizer = "sgd";  // or "adamw"
  std::optional<double> rate;     // the highest of the schedule
  bool scale_rate = false;        // times the number of ranks
  std::optional<int64_t> warmup;  // steps; else a fifth of the schedule
  std::optional<double> weight_decay;
  double momentum = 0.9;       // SGD
  bool nesterov = true;        // SGD
  std::optional<double> clip;  // limit of the global gradient norm

  // This machine.
  std::optional<int64_t> threads;        // of each rank; else its share of the cores
  double bucket_mb = 25;                 // MiB of gradients that leave together
  std::string all_reduce = "automatic";  // or another algorithm of distributed/comm/algorithm.h

  // Between the ranks.
  RankLayout layout;
  std::string compress = "none";          // or "bfloat16", "float16", "powersgd"
  bool check_nan = false;                 // names the parameter and rank of a NaN
  std::optional<int64_t> check_replicas;  // steps between comparisons of all ranks' weights

  // Output, by rank 0 but for checkpoints; an empty path means none.
  std::string checkpoint;             // a folder that all ranks see
  std::optional<int64_t> save_every;  // steps between checkpoints, beside one an epoch
  bool resume = false;                // continue from `checkpoint`
  std::string metrics;                // a file of JSON lines
  std::string plot;                   // an SVG file
  std::string progress = "auto";      // or "bar", "lines", "none"
  bool quiet = false;                 // print the results only

  // What is meant where an option was left open.
  double peak_rate(int64_t replicas) const;  // of the model, each with its part of the data
  double decay() const;
  int64_t least_passes() const;  // of a step, on one replica
  int64_t passes() const;        // the same where there are no virtual shards
  int64_t samples_per_step(int64_t replicas) const;
  /// Into how many virtual shards a step is cut, so that the weights are the same to the last bit
  /// on any number of ranks; 0: into the ranks' own passes, whose sums depend on the ranks by
  /// rounding. A fixed global batch is cut into kVirtualShards, if the replicas can share them out
  /// and gradients are not compressed.
  /// Throws ValueError for an impossible `reproducible`.
  int64_t virtual_shards(int64_t replicas) const;
  /// Batches that a replica gets for one step.
  int64_t batches_per_step(int64_t replicas) const;
};

/// Throws ValueError, naming the option as the command line does, for anything that is impossible.
void check(const TrainOptions& options);
/// Adds all options to `reader`, which then reads them into `options`.
void list(TrainOptions& options, OptionReader& reader);
/// Sets what follows from options that were not given. Throws ValueError for some that do not go
/// together.
void settle(TrainOptions& options, const OptionReader& reader);

/// A command line that was read.
template <class Options>
struct CommandLine {
  Options options;
  std::string help;    // if not empty, the user asked for this text instead of a run
  std::string shared;  // the options given, one a line, without those that may differ by rank
};

/// Reads `argv` and checks the options, which are TrainOptions with list() and check() of their
/// own. Throws ValueError.
template <class Options>
CommandLine<Options> parse_command_line(int argc, const char* const* argv) {
  CommandLine<Options> line;
  OptionReader reader(Options::kAbout);
  list(line.options, reader);
  line.help = reader.read(argc, argv);
  if (!line.help.empty()) return line;
  settle(line.options, reader);
  check(line.options);
  line.shared = reader.shared();
  return line;
}

}  // namespace capstan::models
