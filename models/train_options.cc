// Reading order: list (what can be said), check (what is refused), the defaults.
#include "models/train_options.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/raise.h"
#include "distributed/comm/algorithm.h"
#include "models/option_checks.h"
#include "optim/schedule.h"

namespace capstan::models {

void list(TrainOptions& o, OptionReader& reader) {
  reader.group("Model")
      .add("--dropout", o.dropout, "Probability of dropping an activation")
      .add("--dtype", o.dtype, "float32, float64 or bfloat16: of weights and gradients")
      .add("--autocast", o.autocast, "Compute products in bfloat16")
      .add("--seed", o.seed, "Of weights, order of samples and dropout");
  reader.group("Length")
      .add("--epochs", o.epochs, "Passes over the data; the rate's schedule ends with them")
      .add("--steps", o.steps, "Stop at this step of the schedule; --resume goes on");
  reader.group("Batch")
      .add("--batch", o.batch, "Samples of one forward pass on one rank")
      .add("--global-batch", o.global_batch,
           "Samples of one step, over all ranks and accumulated passes")
      .excludes("--batch")
      .add("--accumulate", o.accumulate, "Forward and backward passes of one step, at least")
      .add("--microbatches", o.microbatches, "The same, of a --pipeline (4 a stage)")
      .excludes("--accumulate")
      .add("--reproducible", o.reproducible,
           "Virtual shards of a --global-batch, 0 for none: the same weights on every number of "
           "ranks that divides them (16, if ranks and passes divide it)");
  reader.group("Optimizer")
      .add("--optimizer", o.optimizer, "sgd or adamw")
      .add("--rate", o.rate, "Highest learning rate (sgd 0.02, adamw 0.001)")
      .add("--scale-rate", o.scale_rate, "Linear scaling rule: multiply the rate by the ranks")
      .add("--warmup", o.warmup, "Steps until the rate is reached (a fifth of the schedule)")
      .add("--weight-decay", o.weight_decay, "Weight decay (sgd 0.0005, adamw 0.01)")
      .add("--momentum", o.momentum, "Momentum of sgd")
      .add("--nesterov,!--no-nesterov", o.nesterov, "Nesterov's momentum in sgd (the default)")
      .add("--clip", o.clip, "Limit of the norm of all gradients");
  reader.group("Machine")
      .add("--threads", o.threads, "Threads of each rank (its share of the cores)")
      .of_rank()  // machines may have more or fewer cores
      .add("--bucket-mb", o.bucket_mb, "MiB of gradients that are reduced together");
  list(o.layout, reader);
  reader.group("Ranks")
      .add("--compress", o.compress, "Send gradients as none, bfloat16, float16 or powersgd")
      .add("--check-nan", o.check_nan, "Name the parameter and the rank of a gradient that is NaN")
      .add("--check-replicas", o.check_replicas,
           "Compare the weights of all ranks every so many steps")
      .add("--all-reduce", o.all_reduce, "Algorithm: " + distributed::algorithm_names());
  reader.group("Output")
      .add("--checkpoint", o.checkpoint, "Folder to save to, after each epoch and at the end")
      .add("--save-every", o.save_every, "Save every so many steps, too")
      .add("--resume", o.resume, "Continue from the checkpoint")
      .add("--metrics", o.metrics, "File for a JSON line a step and an evaluation")
      .add("--plot", o.plot, "SVG file for the curves of loss and accuracy")
      .add("--progress", o.progress, "auto, bar, lines or none")
      .add("--quiet", o.quiet, "Print the results only");
}

void settle(TrainOptions& o, const OptionReader& reader) {
  const bool momentum = reader.given("--momentum"), nesterov = reader.given("--nesterov");
  if (o.optimizer == "adamw" && (momentum || nesterov)) {
    raise<ValueError>("[options] --momentum and --nesterov belong to --optimizer sgd, not adamw");
  }
  if (o.momentum == 0 && !nesterov) o.nesterov = false;
  if (o.layout.zero > 0 && reader.given("--bucket-mb")) {
    raise<ValueError>(
        "[options] --bucket-mb does not go with --zero {}: there the gradients of a unit, a block "
        "of "
        "the model, leave together",
        o.layout.zero);
  }
}

// Comparisons are written so that a NaN fails them.
void check(const TrainOptions& o) {
  require_choice("--optimizer", o.optimizer, {"sgd", "adamw"});
  require_choice("--dtype", o.dtype, {"float32", "float64", "bfloat16"});
  require_choice("--progress", o.progress, {"auto", "bar", "lines", "none"});
  require_choice("--compress", o.compress, {"none", "bfloat16", "float16", "powersgd"});
  require(o.dropout >= 0 && o.dropout < 1, "--dropout", "in [0, 1)", o.dropout);
  require(o.momentum >= 0 && o.momentum < 1, "--momentum", "in [0, 1)", o.momentum);
  require(!o.nesterov || o.momentum > 0 || o.optimizer == "adamw", "--momentum",
          "above 0 with --nesterov", o.momentum);
  const auto is_asked = [&](distributed::Algorithm a) { return to_string(a) == o.all_reduce; };
  require(std::ranges::any_of(distributed::kAlgorithms, is_asked), "--all-reduce",
          distributed::algorithm_names(), o.all_reduce);
  require(o.bucket_mb > 0 && o.bucket_mb <= 1 << 20, "--bucket-mb", "in (0, 1048576]", o.bucket_mb);

  // The limits keep products of counts in 63 bits.
  require_count("--epochs", o.epochs, 1'000'000'000);
  require_count("--steps", o.steps, 1'000'000'000);
  require_count("--save-every", o.save_every, 1'000'000'000);
  require_count("--batch", o.batch, 1'000'000);
  require_count("--global-batch", o.global_batch, 1'000'000'000);
  require_count("--accumulate", o.accumulate, 1'000'000);
  require_count("--microbatches", o.microbatches, 1'000'000);
  require_count("--threads", o.threads, 1024);
  require_count("--check-replicas", o.check_replicas, 1'000'000'000);
  if (o.reproducible) {
    const int64_t shards = *o.reproducible;
    require(shards >= 0 && shards <= 65536 && std::popcount(static_cast<uint64_t>(shards)) <= 1,
            "--reproducible", "0 or a power of two up to 65536", shards);
    if (shards > 0 && !o.global_batch) {
      raise<ValueError>(
          "[options] --reproducible needs --global-batch: with --batch a step grows with the "
          "ranks");
    }
    if (shards > 0 && o.compress != "none") {
      raise<ValueError>(
          "[options] --reproducible does not go with --compress: what is compressed depends on the "
          "ranks");
    }
  }
  check(o.layout);
  if (o.layout.zero > 0 && (o.compress != "none" || o.check_replicas)) {
    raise<ValueError>(
        "[options] --zero {} does not go with --compress and --check-replicas: no rank has all of "
        "what they look at",
        o.layout.zero);
  }
  if (o.compress == "powersgd" && (o.layout.pipeline > 1 || o.layout.tensor > 1)) {
    raise<ValueError>(
        "[options] --compress powersgd does not go with --pipeline and --tensor: take bfloat16 or "
        "float16");
  }
  if (o.microbatches && o.layout.pipeline == 1) {
    raise<ValueError>("[options] --microbatches are of a --pipeline; without one say --accumulate");
  }
  if (o.warmup) require(*o.warmup >= 0, "--warmup", "0 or more", *o.warmup);
  if (o.weight_decay) {
    require(*o.weight_decay >= 0 && std::isfinite(*o.weight_decay), "--weight-decay", "0 or more",
            *o.weight_decay);
  }
  require_positive("--rate", o.rate);
  require_positive("--clip", o.clip);
  if (o.global_batch && *o.global_batch % o.least_passes() != 0) {
    raise<ValueError>("[options] --global-batch {} cannot be cut into {} {} equal passes",
                      *o.global_batch, o.layout.pipeline > 1 ? "--microbatches" : "--accumulate",
                      o.least_passes());
  }
  if (o.resume && o.checkpoint.empty()) {
    raise<ValueError>("[options] --resume needs --checkpoint DIR, the folder to continue from");
  }
  if (o.save_every && o.checkpoint.empty()) {
    raise<ValueError>("[options] --save-every needs --checkpoint DIR, the folder to save to");
  }
}

int64_t TrainOptions::least_passes() const {
  return layout.pipeline > 1 ? microbatches.value_or(1) : accumulate;
}

int64_t TrainOptions::passes() const {
  if (layout.pipeline == 1 || microbatches) return least_passes();
  int64_t microbatches = 4 * layout.pipeline;  // a bubble of less than a quarter
  while (global_batch && *global_batch % microbatches != 0) --microbatches;
  return microbatches;
}

double TrainOptions::peak_rate(int64_t replicas) const {
  const double base = rate.value_or(optimizer == "sgd" ? 0.02 : 0.001);
  return scale_rate ? optim::scale_rate_linearly(base, replicas) : base;
}

double TrainOptions::decay() const {
  return weight_decay.value_or(optimizer == "sgd" ? 5e-4 : 1e-2);
}

int64_t TrainOptions::virtual_shards(int64_t replicas) const {
  const auto fits = [&](int64_t shards) {
    return shards % replicas == 0 && shards / replicas >= least_passes();
  };
  if (reproducible) {
    if (*reproducible == 0 || fits(*reproducible)) return *reproducible;
    raise<ValueError>(
        "[options] --reproducible {} cannot be shared out to {} parts of the data with {} passes "
        "or more each",
        *reproducible, replicas, least_passes());
  }
  if (!global_batch || compress != "none") return 0;
  const int64_t most = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(*global_batch)));
  const int64_t shards = std::min(kVirtualShards, most);
  return fits(shards) ? shards : 0;
}

int64_t TrainOptions::batches_per_step(int64_t replicas) const {
  const int64_t shards = virtual_shards(replicas);
  return shards > 0 ? shards / replicas : passes();
}

int64_t TrainOptions::samples_per_step(int64_t replicas) const {
  return global_batch.value_or(batch * passes() * replicas);
}

}  // namespace capstan::models
