#include "models/whole_model.h"

#include "autograd/softmax.h"
#include "autograd/views.h"

namespace capstan::models {
namespace {

using distributed::Sync;

class WholeModel : public Strategy {
 public:
  WholeModel(const TrainOptions& options, Task& task, const Axes& axes,
             const std::vector<int>& order)
      : Strategy(options, task, axes), path_(make_path(model_.module(), model_.recipe(), order)) {}

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
        path_->backward_without_data(sync);
        continue;
      }
      const Tensor logits = model_(batch.inputs), labels = own_labels(batch.labels);
      path_->backward(cross_entropy(logits, labels), weight_of(batch), sync);
      made.correct += count_correct(logits, labels);
      made.samples += labels.numel();
    }
    return made;
  }

  std::optional<Tensor> forward_pass(const Tensor& inputs) override { return model_(inputs); }

 private:
  const std::unique_ptr<distributed::GradientPath> path_;
};

}  // namespace

std::unique_ptr<Strategy> make_whole_model(const TrainOptions& options, Task& task,
                                           const Axes& axes, const std::vector<int>& order) {
  return std::make_unique<WholeModel>(options, task, axes, order);
}

}  // namespace capstan::models
