// Implements Fsdp: what ranks agree on, sharing out, then what a window begins and ends with.
#include "distributed/fsdp/fsdp.h"

#include <algorithm>
#include <future>
#include <map>

#include "autograd/node.h"
#include "core/raise.h"
#include "distributed/clip.h"
#include "distributed/replicate.h"
#include "nn/materialize.h"
#include "nn/state.h"
#include "optim/clip.h"

namespace capstan::distributed {
namespace {

std::string describe(const FsdpOptions& options) {
  return fmt::format(
      "stage {}, reshard_ranks {}, prefetch {}, reduce_each_pass {}, unused {}, virtual shards {}, "
      "check_nan {}, reduce_dtype {}, offload {}, shard_ranks {}",
      options.stage, options.reshard_ranks, options.prefetch, options.reduce_each_pass,
      static_cast<int>(options.unused), options.virtual_shards, options.check_nan,
      options.reduce_dtype ? to_string(*options.reduce_dtype) : "as it is",
      options.offload ? to_string(*options.offload) : "none", options.shard_ranks);
}

void check_options(const FsdpOptions& options, int ranks) {
  if (options.stage < 1 || options.stage > 3) {
    raise<ValueError>("[fsdp] the stage is 1, 2 or 3, got {}; stage 0 is Ddp", options.stage);
  }
  if (options.reduce_dtype) check_floating("fsdp: reduce_dtype", *options.reduce_dtype);
  if (options.offload && options.offload->kind != Device::Kind::cpu) {
    raise<DeviceError>("[fsdp] shards are offloaded to a CPU, not to {}", *options.offload);
  }
  if (options.shard_ranks < 0 || (options.shard_ranks > 0 && ranks % options.shard_ranks != 0)) {
    raise<ValueError>("[fsdp] {} ranks cannot be divided into groups of {}", ranks,
                      options.shard_ranks);
  }
  const int among = options.shard_ranks > 0 ? options.shard_ranks : ranks,
            near = options.reshard_ranks;
  if (near < 0 || (near > 0 && among % near != 0)) {
    raise<ValueError>(
        "[fsdp] after forward, weights that {} ranks share out cannot be shared out among groups "
        "of {}",
        among, near);
  }
  if (near > 0 && options.stage < 3) {
    raise<ValueError>("[fsdp] reshard_ranks is of stage 3: in stage {} weights are always whole",
                      options.stage);
  }
  if (options.reduce_each_pass && options.stage == 1) {
    raise<ValueError>(
        "[fsdp] reduce_each_pass is of stages 2 and 3: in stage 1 gradients are whole anyway");
  }
  if (options.reduce_each_pass && options.virtual_shards > 0) {
    raise<ValueError>(
        "[fsdp] reduce_each_pass adds up ranks before passes, and virtual shards the passes of a "
        "rank first: the bits would depend on the ranks");
  }
  shards_of_each_rank(options.virtual_shards, ranks);
}

void check_plan(const std::vector<UnitPlan>& plan, const FsdpOptions& options) {
  const Tensor* first = nullptr;
  bool trained = false;
  for (const UnitPlan& unit : plan) {
    for (const auto& [name, parameter] : unit.parameters) {
      if (!first) first = &parameter;
      trained = trained || parameter.requires_grad();
      if (parameter.device() == first->device()) continue;
      raise<DeviceError>("[fsdp] all parameters must be on one device; '{}' is on {}, others on {}",
                         name, parameter.device(), first->device());
    }
  }
  const bool on_meta = first && first->device().kind == Device::Kind::meta;
  if (on_meta != (options.recipe != nullptr)) {
    raise<ValueError>(
        "[fsdp] a model on meta comes with the recipe that recorded it, and no other does");
  }
  if (!trained) raise<ValueError>("[fsdp] the model has no parameter to train");
}

/// What this rank has of a flat parameter's parameter number `p`.
Piece piece_of(const FlatParameter& flat, size_t p) {
  const auto& [name, parameter] = flat.parameters()[p];
  const FlatParameter::Range range = flat.range(p);
  return {name, Region::whole(parameter.shape()).range(range.first, range.last),
          part_of(flat.shard(), range, parameter.shape())};
}

}  // namespace

Fsdp::Fsdp(nn::Module& model, Communicator& communicator, FsdpOptions options)
    : ReducedPath(communicator), options_(std::move(options)) {
  communicator.agree("the options of Fsdp", describe(options_));
  std::vector<UnitPlan> plan;
  communicator.together("fsdp", [&] {
    check_options(options_, communicator.size());
    plan = plan_units(model, options_.units);
    check_plan(plan, options_);
  });
  communicator.agree("the units of Fsdp", to_string(plan));
  start_equal(model);
  if (const int size = options_.shard_ranks; size > 0 && size < communicator.size()) {
    group_ = communicator.split(communicator.rank() / size, communicator.rank());
    replicas_ = communicator.split(communicator.rank() % size, communicator.rank());
  }
  if (options_.stage == 3) gathers_ = group().split(0, group().rank());
  if (const int near = options_.reshard_ranks; near > 1 && near < group().size()) {
    near_ = group().split(group().rank() / near, group().rank());
  }
  share_out(plan);
  connect(model);
}

Fsdp::~Fsdp() = default;

// Sees to it that all ranks start from the same numbers.
void Fsdp::start_equal(nn::Module& model) {
  if (!options_.recipe) {
    return replicate(nn::state_dict(model), communicator_, "the model's parameters and buffers");
  }
  agree_on(options_.recipe, model, communicator_);
  const auto make = [&](const Tensor& tensor) {
    nn::become(tensor, options_.recipe->make(tensor, options_.device));
  };
  for (const auto& [_, buffer] : model.buffers()) make(buffer);
  for (const auto& [_, parameter] : model.parameters()) {
    if (options_.stage < 3 && !parameter.requires_grad()) make(parameter);  // is not shared out
  }
}

Communicator& Fsdp::group() { return group_ ? *group_ : communicator_; }

// Makes flat parameters of the units. Before stage 3, frozen parameters are left alone: they stay
// on every rank, and nothing is sent for them.
void Fsdp::share_out(const std::vector<UnitPlan>& plan) {
  for (const UnitPlan& unit : plan) {
    std::map<std::pair<Dtype, bool>, NamedTensors> kinds;
    for (const auto& [name, parameter] : unit.parameters) {
      const bool trained = parameter.requires_grad();
      if (trained || options_.stage == 3)
        kinds[{parameter.dtype(), trained}].emplace_back(name, parameter);
    }
    if (kinds.empty()) continue;
    Unit& made = units_.emplace_back(Unit{unit.name, unit.module, {}});
    for (auto& [kind, parameters] : kinds) {
      const Device device = options_.recipe ? options_.device : parameters[0].second.device();
      made.flats.push_back(std::make_unique<FlatParameter>(
          fmt::format("{} {}{}", unit.name.empty() ? "root" : unit.name, kind.first,
                      kind.second ? "" : ", frozen"),
          std::move(parameters), group(), options_.stage < 3, options_.offload.value_or(device),
          options_.recipe, device));
    }
  }
}

// Joins the model's leaves, the optimizer's and the reducer's buckets.
void Fsdp::connect(nn::Module& model) {
  struct Place {
    const FlatParameter* flat;
    size_t number;  // in it
    size_t bucket;
  };
  std::map<const TensorBody*, Place> places;
  std::map<const TensorBody*, int> numbers;
  for (const auto& [name, parameter] : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    numbers[&parameter.body()] = static_cast<int>(leaves_.size());
    leaves_.emplace_back(name, parameter);
  }
  // Gradients come in the reverse of the model's order; the root's are complete last.
  Scatter scatter{.ranks = &group(),
                  .replicas = replicas_.get(),
                  .release = options_.stage > 1,
                  .device = options_.offload.value_or(leaves_[0].second.device()),
                  .dtype = options_.reduce_dtype};
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    for (const auto& flat : unit->flats) {
      if (!flat->parameters()[0].second.requires_grad()) continue;
      std::vector<int>& bucket = scatter.plan.emplace_back();
      for (size_t p = 0; p < flat->parameters().size(); ++p) {
        const TensorBody* body = &flat->parameters()[p].second.body();
        places[body] = {flat.get(), p, scatter.plan.size() - 1};
        bucket.push_back(numbers.at(body));
      }
    }
  }

  NamedTensors parameters;
  for (const auto& [name, leaf] : leaves_) {
    const Place& place = places.at(&leaf.body());
    pieces_.push_back(piece_of(*place.flat, place.number));
    stepped_.push_back(pieces_.back().values);
    require_grad(stepped_.back());
    accumulator(stepped_.back()).part_of_whole = true;
    parameters.emplace_back(name, stepped_.back());
  }
  for (const Unit& unit : units_) {
    for (const auto& flat : unit.flats) {
      if (flat->parameters()[0].second.requires_grad()) continue;
      for (size_t p = 0; p < flat->parameters().size(); ++p) pieces_.push_back(piece_of(*flat, p));
    }
  }
  open(std::move(parameters),
       {.leaves = leaves_,
        .stepped = stepped_,
        .unused = options_.unused,
        .reduce_each_pass = options_.reduce_each_pass,
        .reducer = {.virtual_shards = options_.virtual_shards,
                    .check_nan = options_.check_nan,
                    .scatter = std::move(scatter)}},
       std::make_unique<AveragedBuffers>(model));
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Tensor& leaf = leaves_[i].second;
    const Place& place = places.at(&leaf.body());
    places_.push_back(
        part_of(reducer_->part(place.bucket), place.flat->range(place.number), leaf.shape()));
    accumulator(stepped_[i]).place_grad(places_.back());
  }
  if (options_.stage < 3) return;
  gathering_ = std::make_unique<Gathering>(
      model, units_, *gathers_,
      GatheringOptions{.release_after_forward = options_.reshard_ranks != 1,
                       .near = near_.get(),
                       .prefetch = options_.prefetch});
}

void Fsdp::window_begins() {
  for (const auto& [_, leaf] : leaves_) zero_grad(leaf);  // of a window that was given up
}

// On ranks with data, gathers and reductions take turns as backward has it. Here nothing orders the
// two, and each must go on without the other.
void Fsdp::pass_without_data(const std::function<void()>& reduce) {
  if (!gathering_ || gathering_->holds_all()) return reduce();
  std::future<void> gathers =
      std::async(std::launch::async, [this] { gathering_->pass_without_data(); });
  try {
    reduce();
  } catch (const std::exception& error) {
    for (const auto* gathers : {&gathers_, &near_}) {  // nobody will make the others'
      if (*gathers) (*gathers)->fail(error.what(), false);
    }
    throw;
  }
  gathers.get();
}

void Fsdp::pass_ends() {
  if (gathering_) gathering_->pass_ends();
}

// The means of this rank's shards are in their places; that they are gradients is still to be said.
void Fsdp::gradients_are_there() {
  for (size_t i = 0; i < stepped_.size(); ++i) accumulator(stepped_[i]).set_grad(places_[i]);
}

void Fsdp::after_step() {
  if (gathering_) return gathering_->weights_changed();  // they are gathered when they are used
  std::vector<Work> works;
  for (const Unit& unit : units_) {
    for (const auto& flat : unit.flats) works.push_back(flat->gather(group()));
  }
  for (const Work& work : works) work.wait();
}

void Fsdp::hold() {
  if (gathering_) gathering_->hold_all();
}

void Fsdp::wait_for(const Tensor& parameter) {
  const auto is_it = [&](const auto& entry) { return entry.second.same(parameter); };
  for (size_t u = 0; gathering_ && u < units_.size(); ++u) {
    for (const auto& flat : units_[u].flats) {
      if (std::ranges::any_of(flat->parameters(), is_it)) gathering_->arrive(static_cast<int>(u));
    }
  }
}

void Fsdp::let_go() {
  if (gathering_) gathering_->let_go();
}

ExactSum Fsdp::squares_of_gradients() {
  return sum_over(optim::squares_of_gradients(parameters()), group());
}

double Fsdp::clip_grad_norm(double limit) {
  return distributed::clip_grad_norm(parameters(), parameters(), limit, group());
}

bool Fsdp::unscale(const optim::GradScaler& scaler) {
  return distributed::unscale(scaler, parameters(), group());
}

int64_t Fsdp::bytes_sent() const {
  int64_t bytes = 0;
  for (const auto* made : {&group_, &replicas_, &gathers_, &near_}) {
    if (*made) bytes += (*made)->traffic().bytes_sent;
  }
  return bytes;
}

const Overlap& Fsdp::gather_overlap() const {
  static const Overlap none;
  return gathering_ ? gathering_->overlap() : none;
}

Fsdp::FullParameters::FullParameters(Fsdp& fsdp) : fsdp_(fsdp) {
  fsdp.hold();
  if (fsdp.gathering_) fsdp.gathering_->arrive_all();
  for (const Unit& unit : fsdp.units_) {
    for (const auto& flat : unit.flats) versions_.push_back(flat->whole().version());
  }
}

Fsdp::FullParameters::~FullParameters() {
  size_t i = 0;
  for (const Unit& unit : fsdp_.units_) {
    for (const auto& flat : unit.flats) {
      if (flat->whole().version() != versions_[i++]) flat->adopt();
    }
  }
  fsdp_.let_go();
}

}  // namespace capstan::distributed
