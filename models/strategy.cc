// Reading order: the pieces of a model that a rank holds, then what is asked of the whole model.
#include "models/strategy.h"

#include <cstring>

#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/sha256.h"
#include "distributed/cast_hook.h"
#include "distributed/checkpoint/assemble.h"
#include "distributed/clip.h"
#include "distributed/ddp.h"
#include "distributed/expert_parallel/mixture_of_experts.h"
#include "distributed/fsdp/fsdp.h"
#include "distributed/pieces.h"
#include "distributed/power_sgd.h"
#include "models/pipelined_model.h"
#include "models/whole_model.h"
#include "nn/materialize.h"

namespace capstan::models {

using distributed::Communicator;
using distributed::Pieces;

Axes::Axes(const distributed::Mesh& mesh, Communicator& world)
    : mesh_(mesh),
      world_(world),
      data_(split({"data"})),
      context_(split({"context"})),
      replicas_(context_->size() == 1 ? data_ : split({"data", "context"})),
      pipeline_(split({"pipeline"})),
      tensor_(split({"tensor"})),
      copy_(split({"pipeline", "tensor"})) {}

Communicator* Axes::split(const std::vector<std::string>& axes) {
  if (std::ssize(mesh_.group(0, axes)) == world_.size()) return &world_;
  owned_.push_back(mesh_.split(world_, axes));
  return owned_.back().get();
}

namespace {

/// What takes the place of a plain all-reduce; null for none.
std::shared_ptr<distributed::BucketHook> make_hook(const TrainOptions& options) {
  if (options.compress == "bfloat16") return distributed::sum_in(Dtype::bfloat16);
  if (options.compress == "float16") return distributed::sum_in(Dtype::float16);
  if (options.compress == "powersgd") return distributed::power_sgd({.seed = options.seed});
  return nullptr;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, _] : tensors) names.push_back(name);
  return names;
}

}  // namespace

Strategy::Strategy(const TrainOptions& options, Task& task, const Axes& axes)
    : options_(options),
      model_(task.model),
      names_(names_of(model_.module().parameters())),
      axes_(axes) {
  if (options.layout.spread_experts) {
    distributed::spread_experts(model_.module(), axes.data());
  }
  axes.replicas().set_all_reduce(distributed::algorithm_of(options.all_reduce));
  if (const int ranks = axes.tensor().size(); ranks > 1) {
    if (!task.tensor_plan) {
      raise<ValueError>(
          "[options] --tensor {}: there is no plan by which to cut this model's layers", ranks);
    }
    tensor_.emplace(model_.module(), *task.tensor_plan, axes.tensor(), model_.recipe());
  }
  if (const int ranks = axes.context().size(); ranks > 1) {
    if (!task.context) {
      raise<ValueError>("[options] --context-parallel {}: this model knows no sequences", ranks);
    }
    context_.emplace(model_.module(), *task.context, axes.context());
  }
}

Tensor Strategy::own_labels(const Tensor& labels) const {
  return flatten(context_ ? context_->part(labels) : labels);
}

double Strategy::weight_of(const data::Batch& batch) const {
  return static_cast<double>(batch.size()) / axes_.context().size();
}

std::vector<std::string> Strategy::spread_experts() const {
  if (!options_.layout.spread_experts) return {};
  return {"*.mixture.experts.*"};
}

std::unique_ptr<distributed::GradientPath> Strategy::make_path(nn::Module& module,
                                                               const Recipe* recipe,
                                                               const std::vector<int>& order) {
  Communicator& ranks = axes_.replicas();
  // Where sequences are cut, a shard is on several ranks: passes are the same ones, and sums not.
  const int64_t shards = context_ ? 0 : options_.virtual_shards(ranks.size());
  if (options_.layout.zero > 0) {
    return std::make_unique<distributed::Fsdp>(
        module, ranks,
        distributed::FsdpOptions{.stage = static_cast<int>(options_.layout.zero),
                                 .virtual_shards = shards,
                                 .check_nan = options_.check_nan,
                                 .recipe = recipe});
  }
  if (recipe) nn::materialize(module, *recipe);
  hooks_.push_back(make_hook(options_));
  return std::make_unique<distributed::Ddp>(
      module, ranks,
      distributed::DdpOptions{.bucket_bytes = static_cast<int64_t>(options_.bucket_mb * (1 << 20)),
                              .order = options_.layout.spread_experts ? std::vector<int>{} : order,
                              .virtual_shards = shards,
                              .hook = hooks_.back(),
                              .spread = spread_experts(),
                              .check_nan = options_.check_nan,
                              .check_replicas = options_.check_replicas.value_or(0)});
}

Pieces Strategy::model_pieces() {
  Pieces parameters, buffers;
  for (nn::Module* module : modules()) {
    const Pieces pieces = distributed::pieces_of(path(), *module);
    parameters.insert(parameters.end(), pieces.begin(), pieces.end());
    for (const auto& [name, buffer] : module->buffers()) {
      if (buffer.policy == nn::BufferPolicy::local) continue;
      buffers.push_back(distributed::whole(name, buffer));
    }
  }
  Pieces pieces = tensor_ ? tensor_->pieces(parameters) : parameters;
  pieces.insert(pieces.end(), buffers.begin(), buffers.end());
  return pieces;
}

Pieces Strategy::optimizer_pieces(const optim::Optimizer& optimizer) {
  const Pieces pieces = distributed::pieces_of(path(), optimizer.state());
  return tensor_ ? tensor_->pieces(pieces) : pieces;
}

distributed::Groups Strategy::state() const {
  distributed::Groups state;
  for (const auto& hook : hooks_) {
    if (hook) state.merge(hook->state(axes_.replicas()));
  }
  return state;
}

void Strategy::load_state(const std::string& folder, const distributed::Manifest& manifest) {
  for (const auto& hook : hooks_) {
    if (hook) hook->load(folder, manifest, axes_.replicas());
  }
}

Tensor Strategy::blank(const Tensor& inputs) {
  Shape shape = inputs.shape();
  shape[0] = 1;
  return zeros(shape, {.dtype = inputs.dtype()});
}

std::optional<Tensor> Strategy::logits(const Tensor& inputs) {
  const bool empty = inputs.size(0) == 0;
  // Where weights are shared out, or experts, a forward pass is a collective of all ranks: one
  // without samples takes part with a blank one.
  if (empty && !all_make_a_pass()) return std::nullopt;
  const NoGrad guard;
  model_.module().eval();
  const std::optional<Tensor> logits = forward_pass(empty ? blank(inputs) : inputs);
  model_.module().train();
  return empty ? std::nullopt : logits;
}

std::optional<Tensor> Strategy::whole_logits(const Tensor& inputs) {
  const std::optional<Tensor> own = logits(inputs);
  if (!own || !context_) return own;
  const Tensor rows = reshape(*own, {inputs.size(0), -1, own->size(1)});
  return flatten(context_->joined(rows), 0, 1);
}

std::vector<double> Strategy::next_logits(const Tensor& inputs) {
  // Ranks share sequences of some lengths only. What comes after the last token it does not see.
  const int64_t count = inputs.size(1), each = options_.layout.sequence_parts();
  const int64_t more = (count + each - 1) / each * each - count;
  const Tensor longer = cat({inputs, zeros({1, more}, {.dtype = inputs.dtype()})}, 1);
  std::string bytes;
  if (const std::optional<Tensor> all = whole_logits(longer)) {
    const auto last = select(*all, 0, count - 1).to_vector<double>();
    bytes.assign(reinterpret_cast<const char*>(last.data()), last.size() * sizeof(double));
  }
  Communicator& stages = axes_.pipeline();
  bytes = stages.broadcast_string(bytes, stages.size() - 1, "logits");
  std::vector<double> last(bytes.size() / sizeof(double));
  std::memcpy(last.data(), bytes.data(), bytes.size());
  return last;
}

double Strategy::clip_grad_norm(double limit) {
  const NamedTensors& parameters = path().parameters();
  NamedTensors counted;
  const distributed::NamePatterns spread(spread_experts());
  for (const auto& [name, parameter] : parameters) {
    // What tensor-parallel ranks have alike, one of them counts; and beside experts, which each
    // rank has others of, the first part of the data counts what all of these have.
    const bool is_own = !tensor_ || tensor_->slice(name).axis;
    const bool counts = options_.layout.spread_experts
                            ? spread.fit(name) || axes_.data().rank() == 0
                            : is_own || axes_.tensor().rank() == 0;
    if (counts) counted.emplace_back(name, parameter);
  }
  // Replicas of the data axis have equal gradients, but for shards and experts.
  Communicator& ranks =
      options_.layout.zero > 0 || options_.layout.spread_experts ? axes_.world() : axes_.copy();
  return distributed::clip_grad_norm(parameters, counted, limit, ranks);
}

std::string Strategy::weights_sha256() {
  if (options_.layout.zero == 0 && axes_.copy().size() == 1 && !options_.layout.spread_experts) {
    return models::weights_sha256(model_.module());
  }
  Sha256 sum;
  distributed::assemble(model_pieces(), names_, axes_.world(),
                        [&](const std::string&, const Tensor& whole) { add_elements(sum, whole); });
  return sum.hex();
}

std::unique_ptr<Strategy> make_strategy(const TrainOptions& options, Task& task, const Axes& axes,
                                        const std::vector<int>& order) {
  if (options.layout.pipeline > 1) return make_pipelined_model(options, task, axes);
  return make_whole_model(options, task, axes, order);
}

}  // namespace capstan::models
