#include "models/evaluate.h"

#include "autograd/elementwise.h"
#include "autograd/node.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "data/loader.h"

namespace capstan::models {

int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const NoGrad guard;
  return sum(equal(argmax(logits, 1), labels)).item<int64_t>();
}

Evaluation evaluate(const Classifier& model, const data::Dataset& dataset,
                    distributed::Communicator& communicator, int64_t batch) {
  const auto logits_of = [&](const Tensor& inputs) {
    return inputs.size(0) > 0 ? std::optional(model(inputs)) : std::nullopt;
  };
  model.module().eval();
  const Evaluation result =
      evaluate(logits_of, dataset, communicator.rank(), communicator.size(), communicator, batch);
  model.module().train();
  return result;
}

Evaluation evaluate(const LogitsOf& logits_of, const data::Dataset& dataset, int64_t part,
                    int64_t parts, distributed::Communicator& communicator, int64_t batch) {
  const data::DataLoader loader(dataset, {.batch = batch * parts, .rank = part, .ranks = parts});
  Tensor counts = zeros({2}, {.dtype = Dtype::int64});  // labels, correct ones
  Tensor loss = zeros({}, {.dtype = Dtype::float64});   // summed

  const NoGrad guard;
  for (const data::Batch& samples : loader.epoch(0)) {
    const std::optional<Tensor> logits = logits_of(samples.inputs);
    if (!logits) continue;
    const Tensor labels = flatten(samples.labels);
    counts.mutable_data<int64_t>()[0] += labels.numel();
    counts.mutable_data<int64_t>()[1] += count_correct(*logits, labels);
    *loss.mutable_data<double>() +=
        cross_entropy(*logits, labels, LossReduction::sum).item<double>();
  }

  communicator.all_reduce(counts, distributed::Reduce::sum, "test counts").wait();
  communicator.all_reduce(loss, distributed::Reduce::sum, "test loss").wait();
  const auto total = counts.to_vector<int64_t>();
  return {total[0], total[1], loss.item<double>() / static_cast<double>(total[0])};
}

}  // namespace capstan::models
