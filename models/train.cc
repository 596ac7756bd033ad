// Reading order: train(), at the end; the functions above it are its parts in the order of use.
#include "models/train.h"

#include <algorithm>
#include <cmath>

#include "core/raise.h"
#include "core/random.h"
#include "data/loader.h"
#include "distributed/checkpoint/saver.h"
#include "models/report.h"
#include "models/stop_signal.h"
#include "models/strategy.h"
#include "models/train_state.h"
#include "nn/state.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "optim/sgd.h"

namespace capstan::models {
namespace {

using distributed::Clock;
using distributed::Communicator;

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 const NamedTensors& parameters) {
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(parameters,
                                          optim::AdamWOptions{.weight_decay = options.decay()});
  }
  return std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.momentum = options.momentum,
                                                                    .weight_decay = options.decay(),
                                                                    .nesterov = options.nesterov});
}

/// Warm-up and cosine over all epochs, or until --steps if that is later.
optim::WarmupCosine make_schedule(const TrainOptions& options, int64_t steps_per_epoch,
                                  int64_t ranks) {
  const int64_t total = std::max(options.epochs * steps_per_epoch, options.steps.value_or(0));
  const int64_t warmup = options.warmup.value_or(total / 5);
  if (warmup > total) {
    raise<ValueError>("[options] --warmup {} is longer than the schedule of {} steps", warmup,
                      total);
  }
  return {.peak = options.peak_rate(ranks), .warmup = warmup, .total = total};
}

/// Masks differ between steps and their passes, and depend on nothing that came before.
Generator dropout_of(uint64_t seed, int64_t step) {
  constexpr uint64_t kDropout = 0x64726f70;  // "drop": a stream apart from other uses
  return Generator(seed).fork(kDropout).fork(step);
}

/// Asks all ranks whether one of them was told to stop; the answer travels while they compute.
class StopVote {
 public:
  explicit StopVote(Communicator& communicator)
      : flag_(full({}, stop_requested(), {.dtype = Dtype::boolean})),
        work_(communicator.all_reduce(flag_, distributed::Reduce::max, "stop")) {}

  bool result() const {
    work_.wait();
    return flag_.item<bool>();
  }

 private:
  Tensor flag_;
  distributed::Work work_;
};

/// The logits, on one of the ranks that have them.
std::optional<Tensor> counted_logits(Strategy& strategy, const Axes& axes, const Tensor& inputs) {
  std::optional<Tensor> logits = strategy.whole_logits(inputs);
  return axes.tensor().rank() == 0 && axes.context().rank() == 0 ? logits : std::nullopt;
}

double finite(double loss, int64_t step) {
  if (std::isfinite(loss)) return loss;
  raise<ValueError>("[train] the loss of step {} is {}: try a lower --rate, or --clip", step, loss);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

TrainResult train(const TrainOptions& options, Task& task, Communicator& communicator,
                  std::ostream& out) {
  if (task.training_set.size() == 0) raise<ValueError>("[train] the training set has no samples");
  if (task.test_set.size() == 0) raise<ValueError>("[train] the test set has no samples");
  const int ranks = communicator.size();
  const Axes axes(options.layout.mesh(ranks), communicator);
  const int part = axes.data().rank(), parts = axes.data().size();  // of the data

  Classifier& model = task.model;
  for (const Dtype dtype : {Dtype::float64, Dtype::bfloat16}) {
    if (options.dtype == to_string(dtype)) model.to(dtype);
  }
  if (options.autocast) model.autocast();
  const data::DataLoader loader(task.training_set,
                                {.batch = options.samples_per_step(parts),
                                 .accumulate = options.passes(),
                                 .shuffle = true,
                                 .seed = options.seed,
                                 .rank = part,
                                 .ranks = parts,
                                 .virtual_shards = options.virtual_shards(parts)});
  const int64_t epoch_steps = loader.steps_per_epoch();
  const optim::WarmupCosine rate = make_schedule(options, epoch_steps, parts);
  const int64_t last_step = options.steps.value_or(rate.total);

  const TrainState::Run run{task.name, options.optimizer, options.seed, task.training_set.size()};
  TrainState state{run};
  std::optional<distributed::Manifest> saved;
  if (options.resume) saved = state.resume(options.checkpoint, communicator);
  const auto strategy = make_strategy(options, task, axes, state.gradient_order);
  distributed::GradientPath& path = strategy->path();
  const auto optimizer = make_optimizer(options, path.parameters());
  distributed::Groups pieces{{"model", strategy->model_pieces()},
                             {"optimizer", strategy->optimizer_pieces(*optimizer)}};
  if (saved) {
    distributed::load(options.checkpoint, *saved, pieces, communicator);
    optimizer->load_state({optimizer->state().begin(), optimizer->state().end()});  // its checks
    path.after_step();  // what ranks hold of one another's numbers is as old as the model
    strategy->load_state(options.checkpoint, *saved);
  }
  pieces.merge(strategy->state());
  Report report(options, task, communicator, out, state.step, last_step, epoch_steps);
  std::optional<distributed::Saver> saver;
  if (!options.checkpoint.empty()) saver.emplace(options.checkpoint, communicator);
  const auto save = [&] {
    state.gradient_order = path.order();
    if (saver) saver->save(pieces, state.metadata());
  };

  TrainResult result;
  while (!result.stopped) {
    const data::Progress at = loader.progress_after(state.samples);
    const bool ended = state.step >= last_step;
    // Before an epoch and not after one, so that a resumed run makes up for the evaluation that was
    // missed when the run was stopped, or killed after the last save.
    if (ended || (at.step == 0 && at.epoch > 0)) {
      const Evaluation test =
          evaluate([&](const Tensor& inputs) { return counted_logits(*strategy, axes, inputs); },
                   task.test_set, part, parts, communicator, task.test_batch);
      report.evaluation(state.step, at.step == 0 ? at.epoch : at.epoch + 1, test);
      if (ended) result.test = test;
    }
    if (ended) break;

    data::Epoch batches = loader.epoch(at.epoch, at.step);
    const int64_t epoch_end = std::min(last_step, state.step + epoch_steps - at.step);
    while (state.step < epoch_end && !result.stopped) {
      const auto begin = Clock::now();
      const StopVote vote(communicator);
      StepRecord record{.step = state.step + 1, .epoch = at.epoch + 1, .rate = rate(state.step)};

      const Evaluation made = strategy->accumulate(batches, loader.batches_per_step(),
                                                   dropout_of(options.seed, state.step));
      record.loss = finite(path.loss(), record.step);
      if (options.clip) record.gradient_norm = strategy->clip_grad_norm(*options.clip);
      optimizer->step(record.rate);
      path.after_step();
      optimizer->zero_grad();

      const int64_t samples = std::llround(path.weight());  // parts of sequences are fractions
      state.step += 1;
      state.samples += samples;
      result.stopped = vote.result();
      report.step(record, made.samples > 0 ? made.accuracy() : 0, samples, seconds_since(begin));
      if (options.save_every && state.step % *options.save_every == 0) save();
    }
    save();
  }
  if (saver) saver->finish();

  result.step = state.step;
  result.samples_per_second = report.samples_per_second();
  result.speed_text = fmt::format(
      "{:.0f} {}/s", result.samples_per_second * static_cast<double>(task.units_per_sample),
      task.unit);
  if (result.test) result.test_text = task.result(*result.test);
  result.hidden_communication = path.overlap().hidden();
  result.weights_sha256 = strategy->weights_sha256();
  result.steps = report.metrics().steps();
  if (task.finally && !result.stopped) task.finally(*strategy);
  return result;
}

}  // namespace capstan::models
