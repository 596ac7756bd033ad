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
  const data::DataLoader loader(dataset, {.batch = batch * communicator.size(),
                                          .rank = communicator.rank(),
                                          .ranks = communicator.size()});
  Tensor counts = zeros({2}, {.dtype = Dtype::int64});  // labels, correct ones
  Tensor loss = zeros({}, {.dtype = Dtype::float64});   // summed

  const NoGrad guard;
  model.module().eval();
  for (const data::Batch& part : loader.epoch(0)) {
    if (part.size() == 0) continue;
    const Tensor logits = model(part.inputs), labels = flatten(part.labels);
    counts.mutable_data<int64_t>()[0] += labels.numel();
    counts.mutable_data<int64_t>()[1] += count_correct(logits, labels);
    *loss.mutable_data<double>() +=
        cross_entropy(logits, labels, LossReduction::sum).item<double>();
  }
  model.module().train();

  communicator.all_reduce(counts, distributed::Reduce::sum, "test counts").wait();
  communicator.all_reduce(loss, distributed::Reduce::sum, "test loss").wait();
  const auto total = counts.to_vector<int64_t>();
  return {total[0], total[1], loss.item<double>() / static_cast<double>(total[0])};
}

}  // namespace capstan::models
