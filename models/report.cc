#include "models/report.h"

#include <algorithm>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/raise.h"
#include "distributed/checkpoint/saver.h"
#include "models/plot.h"

namespace capstan::models {
namespace {

namespace fs = std::filesystem;

/// Throws ValueError if two outputs would be written over each other, however they are spelled.
void refuse_conflicts(const TrainOptions& options) {
  struct Output {
    const char* option;
    fs::path path;
  };
  std::vector<Output> outputs;
  const auto add = [&](const char* option, const fs::path& path) {
    const fs::path real = fs::weakly_canonical(fs::absolute(path));
    outputs.push_back({option, real.has_filename() ? real : real.parent_path()});
  };
  if (!options.metrics.empty()) add("--metrics", options.metrics);
  if (!options.plot.empty()) add("--plot", options.plot);
  if (!options.checkpoint.empty()) {
    for (const std::string& path : distributed::Saver::paths(options.checkpoint))
      add("--checkpoint", path);
  }
  for (const Output& a : outputs) {
    for (const Output& b : outputs) {
      const bool inside = std::ranges::mismatch(a.path, b.path).in1 == a.path.end();  // b in a
      if (&a == &b || !inside) continue;
      raise<ValueError>("[options] {} {} and {} {} are in each other's way: choose other paths",
                        a.option, a.path.string(), b.option, b.path.string());
    }
  }
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) raise<IoError>("[train] cannot make {}: {}", folder.string(), error.message());
}

ProgressStyle style_on(const distributed::Communicator& communicator, const TrainOptions& options) {
  if (communicator.rank() > 0 || options.quiet) return ProgressStyle::none;
  return progress_style(options.progress);
}

}  // namespace

Report::Report(const TrainOptions& options, const Task& task,
               distributed::Communicator& communicator, std::ostream& out, int64_t step,
               int64_t last_step, int64_t steps_per_epoch)
    : task_(task),
      title_(fmt::format("{} with {} on {} {}", task.name, options.optimizer, communicator.size(),
                         communicator.size() == 1 ? "rank" : "ranks")),
      bar_(out, style_on(communicator, options),
           (last_step + steps_per_epoch - 1) / steps_per_epoch, last_step, step) {
  communicator.together("output files", [&] {
    if (communicator.rank() > 0) return;
    plot_ = options.plot;
    refuse_conflicts(options);
    make_folder(fs::path(options.metrics).parent_path());
    make_folder(fs::path(options.plot).parent_path());
    if (!options.plot.empty()) check_writable(options.plot);
    if (!options.checkpoint.empty()) distributed::Saver::prepare(options.checkpoint);
    if (!options.metrics.empty()) metrics_ = Metrics(options.metrics, step);
  });
}

void Report::step(StepRecord record, double accuracy, int64_t samples, double seconds) {
  record.samples_per_second = static_cast<double>(samples) / seconds;
  samples_ += static_cast<double>(samples);
  seconds_ += seconds;
  metrics_.add(record);
  bar_.step(record.epoch, record.loss, accuracy, samples, seconds);
}

void Report::evaluation(int64_t step, int64_t epoch, const Evaluation& evaluation) {
  metrics_.add(EvaluationRecord{step, epoch, evaluation.accuracy(), evaluation.loss});
  bar_.message(fmt::format("epoch {}, step {}: {}, {}", epoch, step, task_.result(evaluation),
                           task_.details(evaluation)));
  // A run that was resumed without its metrics leaves the picture as it is until its first step.
  if (!plot_.empty() && !metrics_.steps().empty())
    write_plot(plot_, metrics_, title_, task_.accuracy);
}

}  // namespace capstan::models
