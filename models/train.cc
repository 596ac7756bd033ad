// Reading order: train(), at the end; the functions above it are its parts in the order of use.
#include "models/train.h"

#include <algorithm>
#include <cmath>

#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"
#include "data/loader.h"
#include "distributed/cast_hook.h"
#include "distributed/ddp.h"
#include "distributed/power_sgd.h"
#include "models/evaluate.h"
#include "models/report.h"
#include "models/stop_signal.h"
#include "models/train_state.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "optim/sgd.h"

namespace capstan::models {
namespace {

using distributed::Clock;
using distributed::Communicator;
using distributed::Ddp;
using distributed::Sync;

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

/// What takes the place of a plain all-reduce; null for none.
std::shared_ptr<distributed::BucketHook> make_hook(const TrainOptions& options) {
  if (options.compress == "bfloat16") return distributed::sum_in(Dtype::bfloat16);
  if (options.compress == "float16") return distributed::sum_in(Dtype::float16);
  if (options.compress == "powersgd") return distributed::power_sgd({.seed = options.seed});
  return nullptr;
}

/// Masks differ between steps and their passes, and depend on nothing that came before.
Generator dropout_of(uint64_t seed, int64_t step) {
  constexpr uint64_t kDropout = 0x64726f70;  // "drop": a stream apart from other uses
  return Generator(seed).fork(kDropout).fork(step);
}

/// Runs forward and backward over one step's `passes` batches of this rank; afterwards the
/// gradients are those of all ranks. Returns the share of this rank's labels that the model got
/// right.
double accumulate_gradients(const Classifier& model, Ddp& ddp, data::Epoch& batches, int64_t passes,
                            int rank, const Generator& dropout) {
  int64_t correct = 0, all = 0;
  data::Batch batch;
  for (int64_t pass = 0; pass < passes; ++pass) {
    default_generator() = dropout.fork(rank * passes + pass);  // the number of the virtual shard
    batches.next(batch);
    const Sync sync = pass == passes - 1 ? Sync::yes : Sync::no;
    if (batch.size() > 0) {
      const Tensor logits = model(batch.inputs), labels = flatten(batch.labels);
      ddp.backward(cross_entropy(logits, labels), static_cast<double>(batch.size()), sync);
      correct += count_correct(logits, labels);
      all += labels.numel();
    } else {
      ddp.backward_without_data(sync);
    }
  }
  return all > 0 ? static_cast<double>(correct) / static_cast<double>(all) : 0;
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
  const int rank = communicator.rank(), ranks = communicator.size();
  communicator.set_all_reduce(distributed::algorithm_of(options.all_reduce));

  Classifier& model = task.model;
  for (const Dtype dtype : {Dtype::float64, Dtype::bfloat16}) {
    if (options.dtype == to_string(dtype)) model.to(dtype);
  }
  if (options.autocast) model.autocast();
  const auto optimizer = make_optimizer(options, model.module().parameters());
  const int64_t shards = options.virtual_shards(ranks);
  const data::DataLoader loader(task.training_set, {.batch = options.samples_per_step(ranks),
                                                    .accumulate = options.accumulate,
                                                    .shuffle = true,
                                                    .seed = options.seed,
                                                    .rank = rank,
                                                    .ranks = ranks,
                                                    .virtual_shards = shards});
  const int64_t epoch_steps = loader.steps_per_epoch();
  const optim::WarmupCosine rate = make_schedule(options, epoch_steps, ranks);
  const int64_t last_step = options.steps.value_or(rate.total);

  const TrainState::Run run{task.name, options.optimizer, options.seed, task.training_set.size()};
  TrainState state{model.module(), *optimizer, run};
  if (options.resume) state.load(options.checkpoint, communicator);
  Ddp ddp(model.module(), communicator,
          {.bucket_bytes = static_cast<int64_t>(options.bucket_mb * (1 << 20)),
           .order = state.gradient_order,
           .virtual_shards = shards,
           .hook = make_hook(options),
           .check_nan = options.check_nan,
           .check_replicas = options.check_replicas.value_or(0)});
  Report report(options, task, communicator, out, state.step, last_step, epoch_steps);
  const auto save = [&] {
    state.gradient_order = ddp.order();
    if (rank == 0 && !options.checkpoint.empty()) state.save(options.checkpoint);
  };

  TrainResult result;
  while (!result.stopped) {
    const data::Progress at = loader.progress_after(state.samples);
    const bool ended = state.step >= last_step;
    // Before an epoch and not after one, so that a resumed run makes up for the evaluation that was
    // missed when the run was stopped, or killed after the last save.
    if (ended || (at.step == 0 && at.epoch > 0)) {
      const Evaluation test = evaluate(model, task.test_set, communicator, task.test_batch);
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

      const double accuracy = accumulate_gradients(model, ddp, batches, loader.batches_per_step(),
                                                   rank, dropout_of(options.seed, state.step));
      record.loss = finite(ddp.loss(), record.step);
      if (options.clip) {
        record.gradient_norm = optim::clip_grad_norm(optimizer->parameters(), *options.clip);
      }
      optimizer->step(record.rate);
      optimizer->zero_grad();

      const auto samples = static_cast<int64_t>(ddp.weight());
      state.step += 1;
      state.samples += samples;
      result.stopped = vote.result();
      report.step(record, accuracy, samples, seconds_since(begin));
      if (options.save_every && state.step % *options.save_every == 0) save();
    }
    save();
  }

  result.step = state.step;
  result.samples_per_second = report.samples_per_second();
  result.speed_text = fmt::format(
      "{:.0f} {}/s", result.samples_per_second * static_cast<double>(task.units_per_sample),
      task.unit);
  if (result.test) result.test_text = task.result(*result.test);
  result.hidden_communication = ddp.overlap().hidden();
  result.weights_sha256 = weights_sha256(model.module());
  result.steps = report.metrics().steps();
  return result;
}

}  // namespace capstan::models
