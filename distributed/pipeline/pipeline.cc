// Reading order: the constructor and its parts, run() and evaluate(), then what the parts of a
// model on different ranks have to share.
#include "distributed/pipeline/pipeline.h"

#include <algorithm>
#include <cmath>

#include "autograd/autocast.h"
#include "core/raise.h"
#include "distributed/clip.h"
#include "distributed/pipeline/check.h"
#include "distributed/replicate.h"
#include "nn/state.h"

namespace capstan::distributed::pipeline {
namespace {

std::string describe(const PipelineOptions& options, const nn::Chain& chain) {
  std::string text = fmt::format(
      "schedule {}, {} chunks a stage, {} microbatches, cut {}, example {}, ties {}; layers",
      options.schedule, options.chunks, options.microbatches, fmt::join(options.cut, " "),
      to_string(crossings(options.example)), options.ties_each_microbatch);
  for (const nn::Layer& layer : chain.layers()) text += " " + layer.name;
  for (const auto& [name, parameter] : chain.model().parameters()) {
    text += fmt::format("; {} {} {}{}", name, parameter.dtype(), parameter.shape(),
                        parameter.requires_grad() ? "" : " frozen");
  }
  return text;
}

std::string describe(const std::vector<Microbatch>& microbatches) {
  std::string text;
  for (const Microbatch& data : microbatches) {
    text += fmt::format("weight {}: {}; ", data.weight, to_string(crossings(data.inputs)));
  }
  return text;
}

void check_options(const PipelineOptions& options, int64_t layers, int stages) {
  if (!options.loss) raise<ValueError>("[pipeline] needs a loss");
  if (options.schedule == "forward") {
    raise<ValueError>("[pipeline] 'forward' is no schedule to train with; see evaluate()");
  }
  if (layers == 0) raise<ValueError>("[pipeline] the model has no layers");
  if (options.chunks < 1) {
    raise<ValueError>("[pipeline] needs 1 or more chunks a stage, got {}", options.chunks);
  }
  const int64_t chunks = int64_t{stages} * options.chunks;
  if (layers < chunks) {
    raise<ValueError>(
        "[pipeline] {} stages of {} chunks need a layer each, the model has {}: start fewer ranks",
        stages, options.chunks, layers);
  }
  if (options.cut.empty()) {
    if (!options.example.empty()) return;
    raise<ValueError>("[pipeline] needs a cut, or an example to count the layers' costs on");
  }
  if (std::ssize(options.cut) != chunks) {
    raise<ValueError>("[pipeline] the cut has {} parts, for {} stages of {} chunks it needs {}",
                      options.cut.size(), stages, options.chunks, chunks);
  }
}

bool trains(nn::Module& chunk) {
  return std::ranges::any_of(chunk.parameters(),
                             [](const auto& entry) { return entry.second.requires_grad(); });
}

}  // namespace

Pipeline::Pipeline(const nn::Chain& chain, Communicator& stages, PipelineOptions options,
                   const MakePath& make_path)
    : stages_(stages), twin_(chain.on_meta()), model_(chain.model()), options_(std::move(options)) {
  stages.agree("the options of the pipeline", describe(options_, chain));
  agree_on(options_.recipe, chain.model(), stages);
  plan(chain);
  const Deal deal = pipeline::deal(chain, cut_, stages.size());
  if (Chunk last(deal, static_cast<int>(cut_.size()) - 1); !trains(last)) {
    raise<ValueError>("[pipeline] {} is the last one and has no parameter of its own to train",
                      last.describe());
  }
  make_parts(deal, make_path);
  make_links(deal.ties);
  executor_ = std::make_unique<Executor>(stage(), parts_, links_, options_.loss);
}

Pipeline::~Pipeline() = default;

// The pure part: the same on all ranks.
void Pipeline::plan(const nn::Chain& chain) {
  const auto layers = std::ssize(chain.layers());
  check_options(options_, layers, stages_.size());
  schedule_ =
      make_schedule(options_.schedule, stages_.size(), options_.chunks, options_.microbatches);
  simulate(schedule_);
  if (!options_.example.empty()) costs_ = pipeline::layer_costs(twin_, options_.example);
  cut_ = options_.cut.empty() ? cut_balanced(costs_, int64_t{stages_.size()} * options_.chunks)
                              : cut_by_list(layers, options_.cut);
  if (!options_.example.empty()) trace_of(options_.example);
}

void Pipeline::make_parts(const Deal& deal, const MakePath& make_path) {
  for (int number = stage(); number < std::ssize(cut_); number += stages_.size()) {
    parts_.push_back({std::make_unique<Chunk>(deal, number), nullptr});
  }
  release_others(deal, stage(), stages_.size());
  stages_.together("the parameters of the stages", [&] {
    for (const Part& part : parts_) {
      if (options_.recipe) part.chunk->materialize(*options_.recipe);
      for (const auto& [name, parameter] : part.chunk->parameters()) {
        if (parameter.device().kind != Device::Kind::meta) continue;
        raise<ValueError>(
            "[pipeline] '{}' is of this stage, but on meta: it had no numbers and no recipe, or a "
            "layer of another stage lists a module around it",
            name);
      }
    }
  });
  for (Part& part : parts_) {
    if (!trains(*part.chunk)) continue;
    part.path = make_path(*part.chunk);
    part.chunk->find_owned();
    const NamedTensors& stepped = part.path->parameters();
    parameters_.insert(parameters_.end(), stepped.begin(), stepped.end());
  }
}

void Pipeline::make_links(const std::vector<Tie>& ties) {
  std::vector<std::pair<Kind, Ends>> neighbours;
  for (int chunk = 0; chunk + 1 < std::ssize(cut_); ++chunk) {
    const int here = schedule_.stage_of(chunk), next = schedule_.stage_of(chunk + 1);
    for (const auto& link : {std::pair(Kind::send_output, Ends{here, next}),
                             std::pair(Kind::send_gradient, Ends{next, here})}) {
      if (std::ranges::find(neighbours, link) == neighbours.end()) neighbours.push_back(link);
    }
  }
  std::vector<Ends> pairs;
  for (const auto& [_, ends] : neighbours) pairs.push_back(ends);
  for (const Tie& tie : ties) {
    pairs.push_back({schedule_.stage_of(tie.borrower), schedule_.stage_of(tie.owner)});
  }
  auto communicators = connect(stages_, pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!communicators[i]) continue;
    auto link = std::make_unique<Link>(std::move(communicators[i]));
    if (i < neighbours.size()) {
      links_.neighbours[neighbours[i]] = std::move(link);
    } else {
      const Tie& tie = ties[i - neighbours.size()];
      links_.ties[{tie.name, tie.borrower}] = std::move(link);
    }
  }
}

const Trace& Pipeline::trace_of(const Tensors& inputs) {
  twin_.model().train(model_.training());
  const std::optional<Dtype> cast = autocast_dtype();
  const std::string key =
      fmt::format("{}, in {}{}", to_string(crossings(inputs)),
                  cast ? to_string(*cast) : "its dtype", model_.training() ? "" : ", evaluated");
  const auto known = traces_.find(key);
  return known != traces_.end() ? known->second
                                : traces_.emplace(key, trace(twin_, cut_, inputs)).first->second;
}

void Pipeline::run(const std::vector<Microbatch>& microbatches) {
  if (std::ssize(microbatches) != schedule_.microbatches) {
    raise<ValueError>("[pipeline] a step is {} microbatches, got {}", schedule_.microbatches,
                      microbatches.size());
  }
  for (const Microbatch& data : microbatches) {
    if (data.weight >= 0 && std::isfinite(data.weight)) continue;
    raise<ValueError>("[pipeline] the weight of a microbatch must be 0 or more, got {}",
                      data.weight);
  }
  carry_out(schedule_, microbatches);
  together([&] { learn_outcome(); });
}

std::vector<Tensors> Pipeline::evaluate(const std::vector<Tensors>& inputs) {
  if (inputs.empty()) return {};
  std::vector<Microbatch> microbatches;
  for (const Tensors& tensors : inputs) microbatches.push_back({tensors, {}});
  const NoGrad guard;
  carry_out(forward_only(stages_.size(), options_.chunks, static_cast<int>(inputs.size())),
            microbatches);
  if (stage() + 1 < stages_.size()) return {};
  return std::move(executor_->outputs());
}

void Pipeline::carry_out(const Schedule& schedule, const std::vector<Microbatch>& microbatches) {
  stages_.agree("the microbatches", describe(microbatches));
  Run run{schedule, microbatches, {}, options_.ties_each_microbatch};
  for (const Microbatch& data : microbatches) {
    run.traces.push_back(data.weight > 0 ? &trace_of(data.inputs) : nullptr);
  }
  together([&] {
    for (const Part& part : parts_) {
      if (part.path) part.path->hold();
    }
    if (std::exchange(ties_are_old_, false)) share_ties();
    if (timed_) stages_.barrier("start of a run").wait();
    executor_->run(run);
    for (const Part& part : parts_) {
      if (part.path) part.path->let_go();
    }
  });
}

// An error leaves other stages waiting for messages: all must hear of it. The communicator of all
// stages finds one text; those of the links then wake who waits.
template <class F>
void Pipeline::together(F f) {
  if (stages_.size() == 1) return f();
  try {
    f();
  } catch (const std::exception& error) {
    const std::string text = stages_.fail(error.what());
    for (auto& [_, link] : links_.neighbours) link->fail(text);
    for (auto& [_, link] : links_.ties) link->fail(text);
    throw SharedError(text);
  }
}

void Pipeline::learn_outcome() {
  Tensor share = zeros({2}, {.dtype = Dtype::float64});
  if (stage() + 1 == stages_.size()) {
    const Share last = parts_.back().path->last();
    share = from_vector(std::vector{last.weight, last.loss}, {2});
  }
  stages_.broadcast(share, stages_.size() - 1, "weight and loss").wait();
  const std::vector<double> values = share.to_vector<double>();
  last_ = {.weight = values[0], .loss = values[1]};
  overlap_ = {};
  for (const Part& part : parts_) {
    if (!part.path) continue;
    overlap_.communication += part.path->overlap().communication;
    overlap_.exposed += part.path->overlap().exposed;
  }
}

// Of all parts' trained parameters first, as parameters() has them.
Pieces Pipeline::pieces() const {
  Pieces trained, frozen;
  for (const Part& part : parts_) {
    if (!part.path) continue;
    const Pieces pieces = part.path->pieces();
    const auto middle = pieces.begin() + std::ssize(part.path->parameters());
    trained.insert(trained.end(), pieces.begin(), middle);
    frozen.insert(frozen.end(), middle, pieces.end());
  }
  trained.insert(trained.end(), frozen.begin(), frozen.end());
  return trained;
}

ExactSum Pipeline::squares_of_gradients() {
  ExactSum squares;
  together([&] {
    for (const Part& part : parts_) {
      if (part.path) squares.add(part.path->squares_of_gradients());
    }
    squares = sum_over(squares, stages_);
  });
  return squares;
}

double Pipeline::clip_grad_norm(double limit) {
  return distributed::clip_grad_norm(parameters_, squares_of_gradients(), limit, stages_);
}

void Pipeline::after_step() {
  together([&] {
    for (const Part& part : parts_) {
      if (part.path) part.path->after_step();
    }
  });
  ties_are_old_ = true;
}

// What is stored where the owner's path shares out its weights is there while it holds them.
void Pipeline::share_ties() {
  for (const Part& part : parts_) {
    for (const Tie& tie : part.chunk->owned()) {
      if (part.path) part.path->wait_for(tie.parameter);
      links_.ties.at({tie.name, tie.borrower})->send({dense_copy(tie.parameter)}, tie.name);
    }
  }
  for (const Part& part : parts_) {
    for (const Tie& tie : part.chunk->borrowed()) {
      Link& link = *links_.ties.at({tie.name, tie.borrower});
      link.expect(crossings({tie.parameter}), tie.name);
      copy_elements(link.receive()[0], detach(tie.parameter));
    }
  }
}

Timeline Pipeline::timeline() {
  constexpr int64_t kNumbers = 5;
  std::vector<double> mine;
  for (const auto& [pass, begin, end] : executor_->spans()) {
    const auto kind = static_cast<double>(pass.kind), chunk = static_cast<double>(pass.chunk);
    mine.insert(mine.end(), {kind, chunk, static_cast<double>(pass.microbatch), begin, end});
  }
  const auto count = std::ssize(mine);  // the same on all stages
  const Tensor all = empty({count * stages_.size()}, {Dtype::float64});
  together([&] { stages_.all_gather(from_vector(mine, {count}), all, "timeline").wait(); });
  const std::vector<double> numbers = all.to_vector<double>();
  Timeline timeline;
  for (int stage = 0; stage < stages_.size(); ++stage) {
    auto& spans = timeline.stages.emplace_back();
    for (int64_t i = stage * count; i < (stage + 1) * count; i += kNumbers) {
      const Instruction pass{static_cast<Kind>(numbers[i]), static_cast<int>(numbers[i + 1]),
                             static_cast<int>(numbers[i + 2])};
      spans.push_back({pass, numbers[i + 3], numbers[i + 4]});
    }
  }
  return timeline;
}

NamedTensors Pipeline::state_dict() const {
  NamedTensors all;
  for (const Part& part : parts_) {
    const NamedTensors some = nn::state_dict(*part.chunk);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void Pipeline::pass(const std::function<void()>&, const Share&, Sync) {
  raise<ValueError>("[pipeline] a pipeline runs whole steps: call run(microbatches)");
}

void Pipeline::backward_without_data(Sync) { pass({}, {}, Sync::yes); }

}  // namespace capstan::distributed::pipeline
