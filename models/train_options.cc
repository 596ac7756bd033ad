// Reading order: parse_command_line (what can be said), check (what is refused), the defaults.
#include "models/train_options.h"

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>

#include "core/raise.h"
#include "optim/schedule.h"

namespace capstan::models {

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  TrainOptions& o = line.options;
  CLI::App app(
      "Trains a classifier on Fashion-MNIST, alone or on many ranks:\n"
      "  train_image --model lenet --epochs 5\n"
      "  mpirun -np 4 train_image --model lenet --epochs 5");
  app.option_defaults()->always_capture_default();
  // The last one counts, so that a script's options can be followed by a person's.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  app.add_option("--model", o.model, "mlp or lenet")->group("Model");
  app.add_option("--dropout", o.dropout, "Probability of dropping an activation")->group("Model");
  app.add_option("--dtype", o.dtype, "float32 or float64")->group("Model");
  app.add_option("--seed", o.seed, "Of weights, order of samples and dropout")
      ->group("Model")
      ->check(CLI::NonNegativeNumber);
  // A machine may keep its copy of the data elsewhere, and have more or fewer cores.
  app.add_option("--data", o.data, "Folder of the four IDX files, plain or gzip")
      ->group("Data")
      ->configurable(false);

  app.add_option("--epochs", o.epochs, "Passes over the data; the rate's schedule ends with them")
      ->group("Length");
  app.add_option("--steps", o.steps, "Stop at this step of the schedule; --resume goes on")
      ->group("Length");

  auto* batch = app.add_option("--batch", o.batch, "Samples of one forward pass on one rank");
  batch->group("Batch");
  app.add_option("--global-batch", o.global_batch,
                 "Samples of one step, over all ranks and accumulated passes")
      ->group("Batch")
      ->excludes(batch);
  app.add_option("--accumulate", o.accumulate, "Forward and backward passes of one step, at least")
      ->group("Batch");
  app.add_option("--reproducible", o.reproducible,
                 "Virtual shards of a step, 0 for none: the same weights on any number of ranks "
                 "that divides them (16 with --global-batch, if the ranks and passes do)")
      ->group("Batch");

  app.add_option("--optimizer", o.optimizer, "sgd or adamw")->group("Optimizer");
  app.add_option("--rate", o.rate, "Highest learning rate (sgd 0.02, adamw 0.001)")
      ->group("Optimizer");
  app.add_flag("--scale-rate", o.scale_rate, "Linear scaling rule: multiply the rate by the ranks")
      ->group("Optimizer");
  app.add_option("--warmup", o.warmup, "Steps until the rate is reached (a fifth of the schedule)")
      ->group("Optimizer");
  app.add_option("--weight-decay", o.weight_decay, "Weight decay (sgd 0.0005, adamw 0.01)")
      ->group("Optimizer");
  auto* momentum = app.add_option("--momentum", o.momentum, "Momentum of sgd")->group("Optimizer");
  auto* nesterov = app.add_flag("--nesterov,!--no-nesterov", o.nesterov,
                                "Nesterov's momentum in sgd (the default)");
  nesterov->group("Optimizer");
  app.add_option("--clip", o.clip, "Limit of the norm of all gradients")->group("Optimizer");

  app.add_option("--threads", o.threads, "Threads of each rank (its share of the cores)")
      ->group("Machine")
      ->configurable(false);
  app.add_option("--bucket-mb", o.bucket_mb, "MiB of gradients that are reduced together")
      ->group("Machine");

  app.add_option("--checkpoint", o.checkpoint, "Folder to save to, after each epoch and at the end")
      ->group("Output");
  app.add_option("--save-every", o.save_every, "Save every so many steps, too")->group("Output");
  app.add_flag("--resume", o.resume, "Continue from the checkpoint")->group("Output");
  app.add_option("--metrics", o.metrics, "File for a JSON line a step and an evaluation")
      ->group("Output");
  app.add_option("--plot", o.plot, "SVG file for the curves of loss and accuracy")->group("Output");
  app.add_option("--progress", o.progress, "auto, bar, lines or none")->group("Output");
  app.add_flag("--quiet", o.quiet, "Print the results only")->group("Output");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    raise<ValueError>("[options] {} (--help lists the options)", error.what());
  }
  if (o.optimizer == "adamw" && momentum->count() + nesterov->count() > 0) {
    raise<ValueError>("[options] --momentum and --nesterov belong to --optimizer sgd, not adamw");
  }
  if (o.momentum == 0 && nesterov->count() == 0) o.nesterov = false;
  check(o);
  line.shared = app.config_to_str();
  return line;
}

namespace {

template <class T>
void require(bool holds, const char* option, const char* rule, const T& value) {
  if (!holds) raise<ValueError>("[options] {} must be {}, got {}", option, rule, value);
}

template <class T>
void require_positive(const char* option, const std::optional<T>& value) {
  if (value) require(*value > 0 && std::isfinite(*value), option, "above 0", *value);
}

bool is_among(const std::string& value, std::initializer_list<const char*> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

}  // namespace

// Comparisons are written so that a NaN fails them.
void check(const TrainOptions& o) {
  require(is_among(o.model, {"mlp", "lenet"}), "--model", "mlp or lenet", o.model);
  require(is_among(o.optimizer, {"sgd", "adamw"}), "--optimizer", "sgd or adamw", o.optimizer);
  require(is_among(o.dtype, {"float32", "float64"}), "--dtype", "float32 or float64", o.dtype);
  require(is_among(o.progress, {"auto", "bar", "lines", "none"}), "--progress",
          "auto, bar, lines or none", o.progress);
  require(o.dropout >= 0 && o.dropout < 1, "--dropout", "in [0, 1)", o.dropout);
  require(o.momentum >= 0 && o.momentum < 1, "--momentum", "in [0, 1)", o.momentum);
  require(!o.nesterov || o.momentum > 0 || o.optimizer == "adamw", "--momentum",
          "above 0 with --nesterov", o.momentum);
  require(o.bucket_mb > 0 && o.bucket_mb <= 1 << 20, "--bucket-mb", "in (0, 1048576]", o.bucket_mb);

  const auto require_count = [](const char* option, std::optional<int64_t> value, int64_t most) {
    if (value && (*value < 1 || *value > most)) {
      raise<ValueError>("[options] {} must be in [1, {}], got {}", option, most, *value);
    }
  };
  // The limits keep products of counts in 63 bits.
  require_count("--epochs", o.epochs, 1'000'000'000);
  require_count("--steps", o.steps, 1'000'000'000);
  require_count("--save-every", o.save_every, 1'000'000'000);
  require_count("--batch", o.batch, 1'000'000);
  require_count("--global-batch", o.global_batch, 1'000'000'000);
  require_count("--accumulate", o.accumulate, 1'000'000);
  require_count("--threads", o.threads, 1024);
  if (o.reproducible) {
    const int64_t shards = *o.reproducible;
    require(shards >= 0 && shards <= 65536 && std::popcount(static_cast<uint64_t>(shards)) <= 1,
            "--reproducible", "0 or a power of two up to 65536", shards);
  }
  if (o.warmup) require(*o.warmup >= 0, "--warmup", "0 or more", *o.warmup);
  if (o.weight_decay) {
    require(*o.weight_decay >= 0 && std::isfinite(*o.weight_decay), "--weight-decay", "0 or more",
            *o.weight_decay);
  }
  require_positive("--rate", o.rate);
  require_positive("--clip", o.clip);
  if (o.global_batch && *o.global_batch % o.accumulate != 0) {
    raise<ValueError>("[options] --global-batch {} cannot be cut into --accumulate {} equal passes",
                      *o.global_batch, o.accumulate);
  }
  if (o.resume && o.checkpoint.empty()) {
    raise<ValueError>("[options] --resume needs --checkpoint DIR, the folder to continue from");
  }
  if (o.save_every && o.checkpoint.empty()) {
    raise<ValueError>("[options] --save-every needs --checkpoint DIR, the folder to save to");
  }
}

double TrainOptions::peak_rate(int64_t ranks) const {
  const double base = rate.value_or(optimizer == "sgd" ? 0.02 : 0.001);
  return scale_rate ? optim::scale_rate_linearly(base, ranks) : base;
}

double TrainOptions::decay() const {
  return weight_decay.value_or(optimizer == "sgd" ? 5e-4 : 1e-2);
}

int64_t TrainOptions::virtual_shards(int64_t ranks) const {
  const auto fits = [&](int64_t shards) {
    return shards % ranks == 0 && shards / ranks >= accumulate;
  };
  if (reproducible) {
    if (*reproducible == 0 || fits(*reproducible)) return *reproducible;
    raise<ValueError>(
        "[options] --reproducible {} cannot be shared out to {} ranks with {} passes or more each",
        *reproducible, ranks, accumulate);
  }
  if (!global_batch) return 0;
  const int64_t most = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(*global_batch)));
  const int64_t shards = std::min(kVirtualShards, most);
  return fits(shards) ? shards : 0;
}

int64_t TrainOptions::samples_per_step(int64_t ranks) const {
  return global_batch.value_or(batch * accumulate * ranks);
}

}  // namespace capstan::models
