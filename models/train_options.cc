// Reading order: parse_command_line (what can be said), check (what is refused), the defaults.
#include "models/train_options.h"

#include <CLI/CLI.hpp>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/raise.h"
#include "distributed/comm/algorithm.h"
#include "optim/schedule.h"

namespace capstan::models {

namespace {

/// Refuses what is not a T: CLI11 makes a number that is too large the largest.
template <class T>
std::string check_integer(const std::string& text) {
  T value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  using Limits = std::numeric_limits<T>;
  return fmt::format("expected an integer in [{}, {}], got {}", Limits::min(), Limits::max(), text);
}

/// The type of an option's value, whether it may be left open or not (never called).
template <class T>
T value_of(const std::optional<T>&);
template <class T>
T value_of(const T&);

/// The options of one group of the help text.
class Group {
 public:
  Group(CLI::App& app, const char* name) : app_(app), name_(name) {}

  /// An option that sets `field`, or a flag if that is a bool.
  template <class T>
  CLI::Option* add(const char* option, T& field, const std::string& help) {
    using Value = decltype(value_of(field));
    if constexpr (std::is_same_v<Value, bool>) {
      return app_.add_flag(option, field, help)->group(name_);
    } else {
      CLI::Option* added = app_.add_option(option, field, help)->group(name_);
      if constexpr (std::is_integral_v<Value>) added->check(check_integer<Value>, "");
      return added;
    }
  }

 private:
  CLI::App& app_;
  const char* name_;
};

}  // namespace

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

  Group model(app, "Model");
  model.add("--model", o.model, "mlp or lenet");
  model.add("--dropout", o.dropout, "Probability of dropping an activation");
  model.add("--dtype", o.dtype, "float32, float64 or bfloat16: of weights and gradients");
  model.add("--autocast", o.autocast, "Compute products in bfloat16");
  model.add("--seed", o.seed, "Of weights, order of samples and dropout");

  Group data(app, "Data");
  auto* folder = data.add("--data", o.data, "Folder of the four IDX files, plain or gzip");

  Group length(app, "Length");
  length.add("--epochs", o.epochs, "Passes over the data; the rate's schedule ends with them");
  length.add("--steps", o.steps, "Stop at this step of the schedule; --resume goes on");

  Group batch(app, "Batch");
  auto* of_rank = batch.add("--batch", o.batch, "Samples of one forward pass on one rank");
  batch
      .add("--global-batch", o.global_batch,
           "Samples of one step, over all ranks and accumulated passes")
      ->excludes(of_rank);
  batch.add("--accumulate", o.accumulate, "Forward and backward passes of one step, at least");
  batch.add("--reproducible", o.reproducible,
            "Virtual shards of a --global-batch, 0 for none: the same weights on every number of "
            "ranks that divides them (16, if ranks and passes divide it)");

  Group optimizer(app, "Optimizer");
  optimizer.add("--optimizer", o.optimizer, "sgd or adamw");
  optimizer.add("--rate", o.rate, "Highest learning rate (sgd 0.02, adamw 0.001)");
  optimizer.add("--scale-rate", o.scale_rate,
                "Linear scaling rule: multiply the rate by the ranks");
  optimizer.add("--warmup", o.warmup, "Steps until the rate is reached (a fifth of the schedule)");
  optimizer.add("--weight-decay", o.weight_decay, "Weight decay (sgd 0.0005, adamw 0.01)");
  auto* momentum = optimizer.add("--momentum", o.momentum, "Momentum of sgd");
  auto* nesterov = optimizer.add("--nesterov,!--no-nesterov", o.nesterov,
                                 "Nesterov's momentum in sgd (the default)");
  optimizer.add("--clip", o.clip, "Limit of the norm of all gradients");

  Group machine(app, "Machine");
  auto* threads =
      machine.add("--threads", o.threads, "Threads of each rank (its share of the cores)");
  machine.add("--bucket-mb", o.bucket_mb, "MiB of gradients that are reduced together");

  Group ranks(app, "Ranks");
  ranks.add("--compress", o.compress, "Send gradients as none, bfloat16, float16 or powersgd");
  ranks.add("--check-nan", o.check_nan,
            "Name the parameter and the rank of a gradient that is NaN");
  ranks.add("--check-replicas", o.check_replicas,
            "Compare the weights of all ranks every so many steps");
  ranks.add("--all-reduce", o.all_reduce, "Algorithm: " + distributed::algorithm_names());

  Group output(app, "Output");
  output.add("--checkpoint", o.checkpoint, "Folder to save to, after each epoch and at the end");
  output.add("--save-every", o.save_every, "Save every so many steps, too");
  output.add("--resume", o.resume, "Continue from the checkpoint");
  output.add("--metrics", o.metrics, "File for a JSON line a step and an evaluation");
  output.add("--plot", o.plot, "SVG file for the curves of loss and accuracy");
  output.add("--progress", o.progress, "auto, bar, lines or none");
  output.add("--quiet", o.quiet, "Print the results only");

  // Ranks need not agree on these: a machine may keep its copy of the data elsewhere, and have more
  // or fewer cores.
  for (CLI::Option* own : {folder, threads}) own->configurable(false);

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
void require(bool holds, const char* option, const std::string& rule, const T& value) {
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
  require(is_among(o.dtype, {"float32", "float64", "bfloat16"}), "--dtype",
          "float32, float64 or bfloat16", o.dtype);
  require(is_among(o.progress, {"auto", "bar", "lines", "none"}), "--progress",
          "auto, bar, lines or none", o.progress);
  require(is_among(o.compress, {"none", "bfloat16", "float16", "powersgd"}), "--compress",
          "none, bfloat16, float16 or powersgd", o.compress);
  require(o.dropout >= 0 && o.dropout < 1, "--dropout", "in [0, 1)", o.dropout);
  require(o.momentum >= 0 && o.momentum < 1, "--momentum", "in [0, 1)", o.momentum);
  require(!o.nesterov || o.momentum > 0 || o.optimizer == "adamw", "--momentum",
          "above 0 with --nesterov", o.momentum);
  const auto is_asked = [&](distributed::Algorithm a) { return to_string(a) == o.all_reduce; };
  require(std::ranges::any_of(distributed::kAlgorithms, is_asked), "--all-reduce",
          distributed::algorithm_names(), o.all_reduce);
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
  if (o.resume && o.compress == "powersgd") {
    raise<ValueError>(
        "[options] --resume does not go with --compress powersgd: what it has yet to send is not "
        "in "
        "checkpoints; continue with another --compress");
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
  if (!global_batch || compress != "none") return 0;
  const int64_t most = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(*global_batch)));
  const int64_t shards = std::min(kVirtualShards, most);
  return fits(shards) ? shards : 0;
}

int64_t TrainOptions::samples_per_step(int64_t ranks) const {
  return global_batch.value_or(batch * accumulate * ranks);
}

}  // namespace capstan::models
