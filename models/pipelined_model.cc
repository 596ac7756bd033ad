#include "models/pipelined_model.h"

#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "distributed/pipeline/pipeline.h"

namespace capstan::models {
namespace {

using distributed::pipeline::Microbatch;
using distributed::pipeline::Pipeline;
using nn::Tensors;

class PipelinedModel : public Strategy {
 public:
  PipelinedModel(const TrainOptions& options, Task& task, const Axes& axes)
      : Strategy(options, task, axes) {
    if (!model_.chain()) {
      raise<ValueError>(
          "[options] --pipeline {}: this model has no layers() to deal out (nn/chain.h)",
          options.layout.pipeline);
    }
    const std::vector<int64_t> sample{0};
    pipeline_ = std::make_unique<Pipeline>(
        *model_.chain(), axes.pipeline(),
        distributed::pipeline::PipelineOptions{
            .schedule = options.layout.schedule,
            .chunks = options.layout.chunks_of_stage(),
            .microbatches = static_cast<int>(options.batches_per_step(axes.data().size())),
            .loss = [this](const Tensors& out, const Tensors& to) { return loss(out, to); },
            .example = {model_.prepare(task.training_set.batch(sample).inputs)},
            .recipe = model_.recipe()},
        [this](nn::Module& chunk) { return make_path(chunk, nullptr); });
  }

  distributed::GradientPath& path() override { return *pipeline_; }

  std::vector<nn::Module*> modules() override {
    std::vector<nn::Module*> chunks;
    for (const auto& part : pipeline_->parts()) chunks.push_back(part.chunk.get());
    return chunks;
  }

  Evaluation accumulate(data::Epoch& batches, int64_t count, const Generator& dropout) override {
    made_ = {};
    std::vector<Microbatch> microbatches;
    data::Batch batch;
    const int64_t first = axes_.coordinate("data") * count;  // the number of the virtual shard
    for (int64_t i = 0; i < count; ++i) {
      batches.next(batch);
      microbatches.push_back({.inputs = {model_.prepare(batch.inputs)},
                              .targets = {own_labels(batch.labels)},
                              .weight = weight_of(batch),
                              .generator = dropout.fork(first + i)});
    }
    const Autocast guard(model_.autocast_dtype());
    pipeline_->run(microbatches);
    const Tensor counts = from_vector<int64_t>({made_.samples, made_.correct}, {2});
    axes_.pipeline().all_reduce(counts, distributed::Reduce::sum, "labels").wait();
    return {counts.data<int64_t>()[0], counts.data<int64_t>()[1]};
  }

  std::optional<Tensor> forward_pass(const Tensor& inputs) override {
    const Autocast guard(model_.autocast_dtype());
    const std::vector<Tensors> outputs = pipeline_->evaluate({{model_.prepare(inputs)}});
    if (outputs.empty()) return std::nullopt;
    return model_.logits_of(outputs[0][0]);
  }

 private:
  Tensor loss(const Tensors& outputs, const Tensors& targets) {
    const Tensor logits = model_.logits_of(outputs[0]);
    made_.correct += count_correct(logits, targets[0]);
    made_.samples += targets[0].numel();
    return cross_entropy(logits, targets[0]);
  }

  std::unique_ptr<Pipeline> pipeline_;
  Evaluation made_;  // of this step; known on the last stage
};

}  // namespace

std::unique_ptr<Strategy> make_pipelined_model(const TrainOptions& options, Task& task,
                                               const Axes& axes) {
  return std::make_unique<PipelinedModel>(options, task, axes);
}

}  // namespace capstan::models
