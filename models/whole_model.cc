#include "models/whole_model.h"

#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/create.h"

namespace capstan::models {
namespace {

using distributed::Sync;

class WholeModel : public Strategy {
 public:
  WholeModel(const TrainOptions& options, Task& task, const Axes& axes,
             const std::vector<int>& order)
      : Strategy(options, task, axes),
        more_loss_(task.more_loss),
        path_(make_path(model_.module(), model_.recipe(), order)) {}

  distributed::GradientPath& path() override { return *path_; }
  std::vector<nn::Module*> modules() override { return {&model_.module()}; }

  Evaluation accumulate(data::Epoch& batches, int64_t count, const Generator& dropout) override {
    Evaluation made;
    data::Batch batch;
    const int64_t first = axes_.coordinate("data") * count;  // the number of the virtual shard
    for (int64_t i = 0; i < count; ++i) {
      batches.next(batch);
      const Sync sync = i == count - 1 ? Sync::yes : Sync::no;
      default_generator() = dropout.fork(first + i);
      if (batch.size() == 0) {
        without_data(batch.inputs, sync);
        continue;
      }
      const Tensor logits = model_(batch.inputs), labels = own_labels(batch.labels);
      const Tensor loss = cross_entropy(logits, labels);
      path_->backward(more_loss_ ? loss + more_loss_() : loss, weight_of(batch), sync);
      made.correct += count_correct(logits, labels);
      made.samples += labels.numel();
    }
    return made;
  }

  std::optional<Tensor> forward_pass(const Tensor& inputs) override { return model_(inputs); }

 private:
  void without_data(const Tensor& inputs, Sync sync) {
    if (!options_.layout.spread_experts) return path_->backward_without_data(sync);
    // Others' tokens come to this rank's experts: it makes a pass, whose own sample counts nothing.
    path_->pass(
        [&] {
          const Tensor loss = sum(model_(blank(inputs)));
          capstan::backward(loss, {.seed = zeros_like(loss)});
        },
        {.weight = 0}, sync);
  }

  const std::function<Tensor()> more_loss_;
  const std::unique_ptr<distributed::GradientPath> path_;
};

}  // namespace

std::unique_ptr<Strategy> make_whole_model(const TrainOptions& options, Task& task,
                                           const Axes& axes, const std::vector<int>& order) {
  return std::make_unique<WholeModel>(options, task, axes, order);
}

}  // namespace capstan::models
