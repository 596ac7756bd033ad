#include "models/strategy.h"

#include "autograd/softmax.h"
#include "autograd/views.h"
#include "distributed/cast_hook.h"
#include "distributed/ddp.h"
#include "distributed/power_sgd.h"

namespace capstan::models {
namespace {

using distributed::Communicator;
using distributed::Sync;

/// What takes the place of a plain all-reduce; null for none.
std::shared_ptr<distributed::BucketHook> make_hook(const TrainOptions& options) {
  if (options.compress == "bfloat16") return distributed::sum_in(Dtype::bfloat16);
  if (options.compress == "float16") return distributed::sum_in(Dtype::float16);
  if (options.compress == "powersgd") return distributed::power_sgd({.seed = options.seed});
  return nullptr;
}

/// Every rank has the whole model and a part of each batch.
class WholeModel : public Strategy {
 public:
  WholeModel(const TrainOptions& options, Classifier& model, Communicator& communicator,
             const std::vector<int>& order)
      : model_(model),
        communicator_(communicator),
        rank_(communicator.rank()),
        hook_(make_hook(options)),
        ddp_(model.module(), communicator,
             {.bucket_bytes = static_cast<int64_t>(options.bucket_mb * (1 << 20)),
              .order = order,
              .virtual_shards = options.virtual_shards(communicator.size()),
              .hook = hook_,
              .check_nan = options.check_nan,
              .check_replicas = options.check_replicas.value_or(0)}) {}

  distributed::GradientPath& path() override { return ddp_; }

  Evaluation accumulate(data::Epoch& batches, int64_t count, const Generator& dropout) override {
    Evaluation made;
    data::Batch batch;
    for (int64_t i = 0; i < count; ++i) {
      batches.next(batch);
      const Sync sync = i == count - 1 ? Sync::yes : Sync::no;
      default_generator() = dropout.fork(rank_ * count + i);
      if (batch.size() == 0) {
        ddp_.backward_without_data(sync);
        continue;
      }
      const Tensor logits = model_(batch.inputs), labels = flatten(batch.labels);
      ddp_.backward(cross_entropy(logits, labels), static_cast<double>(batch.size()), sync);
      made.correct += count_correct(logits, labels);
      made.samples += labels.numel();
    }
    return made;
  }

  std::optional<Tensor> logits(const Tensor& inputs) override {
    const NoGrad guard;
    model_.module().eval();
    const Tensor logits = model_(inputs);
    model_.module().train();
    return logits;
  }

  std::string weights_sha256() override { return models::weights_sha256(model_.module()); }

  distributed::Groups state() override {
    return hook_ ? hook_->state(communicator_) : distributed::Groups();
  }

  void load_state(const std::string& folder, const distributed::Manifest& manifest) override {
    if (hook_) hook_->load(folder, manifest, communicator_);
  }

 private:
  Classifier& model_;
  Communicator& communicator_;
  const int64_t rank_;
  const std::shared_ptr<distributed::BucketHook> hook_;  // or null
  distributed::Ddp ddp_;
};

}  // namespace

std::unique_ptr<Strategy> make_strategy(const TrainOptions& options, Classifier& model,
                                        Communicator& communicator, const std::vector<int>& order) {
  return std::make_unique<WholeModel>(options, model, communicator, order);
}

}  // namespace capstan::models
