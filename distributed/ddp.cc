// Implements Ddp: what it agrees on with the other ranks, and hands to the window.
#include "distributed/ddp.h"

#include "core/raise.h"
#include "distributed/replica_check.h"
#include "distributed/replicate.h"
#include "nn/state.h"
#include "optim/clip.h"

namespace capstan::distributed {

namespace {

std::string describe(const DdpOptions& options) {
  return fmt::format(
      "buckets of {} and {} bytes, unused {}, order {}, virtual shards {}, hook {}, predivide {}, "
      "exclude {}, spread {}, check_nan {}, check_replicas {}",
      options.first_bucket_bytes, options.bucket_bytes, static_cast<int>(options.unused),
      fmt::join(options.order, " "), options.virtual_shards,
      options.hook ? options.hook->name() : "none", options.predivide.value_or(0),
      fmt::join(options.exclude, " "), fmt::join(options.spread, " "), options.check_nan,
      options.check_replicas);
}

}  // namespace

Ddp::Ddp(nn::Module& model, Communicator& communicator, DdpOptions options)
    : ReducedPath(communicator), options_(std::move(options)) {
  if (options_.check_replicas < 0) {
    raise<ValueError>("[ddp] check_replicas is a number of windows, or 0 for never, got {}",
                      options_.check_replicas);
  }
  communicator.agree("the options of Ddp", describe(options_));
  const NamePatterns exclude(options_.exclude), spread(options_.spread);
  communicator.together("exclude",
                        [&] { shared_ = spread.others(exclude.others(nn::state_dict(model))); });
  replicate(shared_, communicator, "the model's parameters and buffers");

  NamedTensors parameters;
  Window window{.leaves = {},
                .stepped = {},
                .unused = options_.unused,
                .reducer = {.limits = {options_.first_bucket_bytes, options_.bucket_bytes},
                            .ready_order = options_.order,
                            .virtual_shards = options_.virtual_shards,
                            .hook = options_.hook,
                            .predivide = options_.predivide,
                            .check_nan = options_.check_nan}};
  for (const auto& [name, parameter] : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameters.emplace_back(name, parameter);
    if (exclude.fit(name)) {
      window.apart.emplace_back(name, parameter);
    } else if (spread.fit(name)) {
      window.summed.emplace_back(name, parameter);
    } else {
      window.leaves.emplace_back(name, parameter);
      window.stepped.push_back(parameter);
    }
  }
  open(std::move(parameters), std::move(window), std::make_unique<AveragedBuffers>(model, exclude));
}

void Ddp::window_ends() {
  ++windows_;
  if (options_.check_replicas > 0 && windows_ % options_.check_replicas == 0) check_replicas();
}

std::vector<int> Ddp::order() const {
  return options_.spread.empty() ? ReducedPath::order() : std::vector<int>{};
}

ExactSum Ddp::squares_of_gradients() { return optim::squares_of_gradients(parameters()); }

double Ddp::clip_grad_norm(double limit) { return optim::clip_grad_norm(parameters(), limit); }

void Ddp::check_replicas() const { distributed::check_replicas(shared_, communicator_); }

}  // namespace capstan::distributed
