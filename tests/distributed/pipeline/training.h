// Defines small trainings, alone and as pipelines, whose weights can be compared.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "autograd/elementwise.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/fsdp/fsdp.h"
#include "distributed/mesh/mesh.h"
#include "distributed/pipeline/pipeline.h"
#include "nn/linear.h"
#include "optim/adamw.h"

namespace capstan::distributed::pipeline::testing {

using Weights = std::map<std::string, std::vector<float>>;

inline constexpr int kShards = 8, kSteps = 3;

/// Eight layers of odd sizes.
struct Deep : nn::Module {
  nn::ModuleList<nn::Linear> layer;
  CAPSTAN_MODULE(Deep, layer)
  Deep() {
    for (int i = 0; i < 8; ++i) layer.emplace_back(5 + i % 3, 5 + (i + 1) % 3);
  }
  nn::Layers layers() {
    nn::Layers all;
    for (size_t i = 0; i < layer.size(); ++i) {
      all.emplace_back(
          "layer." + std::to_string(i), [&l = layer[i]](const Tensor& x) { return tanh(l(x)); },
          std::vector<nn::Module*>{&layer[i]});
    }
    return all;
  }
  Tensor forward(const Tensor& x) { return nn::forward(layers(), x); }
};

/// Mean cross-entropy over all rows.
inline Tensor classify(const Tensors& outputs, const Tensors& targets) {
  return cross_entropy(flatten(outputs[0], 0, -2), flatten(targets[0]));
}

/// One training: a model, and what it sees in a virtual shard of a step.
template <class Model>
struct Training {
  std::function<Model()> make;
  std::function<Microbatch(int step, int shard)> data;
};

/// 13 samples of Deep in 8 shards: one or two each; with `empty`, shards 2 and 7 have none.
inline Training<Deep> deep_training(bool empty = false) {
  return {[] { return Deep(); },
          [empty](int step, int shard) {
            const int64_t samples = empty && (shard == 2 || shard == 7) ? 0 : 1 + (shard < 5);
            Generator generator(100 * step + shard);
            return Microbatch{{randn({samples, 5}, 0, 1, {}, generator)},
                              {randint({samples}, 0, 6, {.dtype = Dtype::int64}, generator)},
                              static_cast<double>(samples),
                              Generator(step).fork(shard)};
          }};
}

/// Adds tensors to weights, of which those of one name must be equal.
inline void add(const NamedTensors& tensors, Weights& weights) {
  for (const auto& [name, tensor] : tensors) {
    const std::vector<float> values = tensor.to_vector<float>();
    CHECK_MESSAGE(weights.try_emplace(name, values).first->second == values, name);
  }
}

inline void add_loss(const GradientPath& path, Weights& weights) {
  add({{"loss",
        from_vector(std::vector{static_cast<float>(path.loss()), static_cast<float>(path.weight())},
                    {2})}},
      weights);
}

template <class Path>
void end_step(Path& path, optim::Optimizer& optimizer) {
  path.clip_grad_norm(0.5);
  optimizer.step(0.01);
  path.after_step();
  optimizer.zero_grad();
}

/// One rank with the whole model, under Ddp.
template <class Model>
Weights train_alone(const Training<Model>& training) {
  const auto self = make_self();
  manual_seed(1);
  Model model = training.make();
  Ddp ddp(model, *self, {.virtual_shards = kShards});
  optim::AdamW adamw(ddp.parameters());
  for (int step = 0; step < kSteps; ++step) {
    for (int shard = 0; shard < kShards; ++shard) {
      const Microbatch data = training.data(step, shard);
      const Sync sync = shard + 1 == kShards ? Sync::yes : Sync::no;
      if (data.weight == 0) {
        ddp.backward_without_data(sync);
        continue;
      }
      default_generator() = *data.generator;
      ddp.backward(classify({model(data.inputs[0])}, data.targets), data.weight, sync);
    }
    end_step(ddp, adamw);
  }
  Weights weights;
  add(model.parameters(), weights);
  add_loss(ddp, weights);
  return weights;
}

struct Layout {
  int stages, replicas = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  bool ties_each_microbatch = true;
  int zero = 0;           // 1 to 3: the replicas share out a chunk
  bool recorded = false;  // the model, on meta: no rank makes the whole
};

/// One rank of a mesh of pipelines; adds the weights of its stage to `weights`.
template <class Model>
void train_rank(const Training<Model>& training, const Layout& layout, Communicator& world,
                Weights& weights) {
  const Mesh mesh({{"pipeline", layout.stages}, {"data", layout.replicas}});
  const auto stages = mesh.split(world, {"pipeline"}), data = mesh.split(world, {"data"});
  const int microbatches = kShards / layout.replicas;
  manual_seed(data->rank() == 0 ? 1 : 99);  // the first replica's numbers must reach the others
  Recipe recipe;
  Model model = layout.recorded ? recipe.record(training.make) : training.make();
  Pipeline pipeline(
      nn::Chain(model), *stages,
      {.schedule = layout.schedule,
       .chunks = layout.chunks,
       .microbatches = microbatches,
       .loss = classify,
       .example = training.data(0, 0).inputs,
       .ties_each_microbatch = layout.ties_each_microbatch,
       .recipe = layout.recorded ? &recipe : nullptr},
      [&](nn::Module& chunk) -> std::unique_ptr<GradientPath> {
        if (layout.zero > 0) {
          return std::make_unique<Fsdp>(
              chunk, *data, FsdpOptions{.stage = layout.zero, .virtual_shards = kShards});
        }
        return std::make_unique<Ddp>(chunk, *data, DdpOptions{.virtual_shards = kShards});
      });
  optim::AdamW adamw(pipeline.parameters());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Microbatch> parts;
    for (int i = 0; i < microbatches; ++i) {
      parts.push_back(training.data(step, data->rank() * microbatches + i));
    }
    pipeline.run(parts);
    end_step(pipeline, adamw);
  }
  for (const Part& part : pipeline.parts()) part.path->hold();
  for (const auto& [_, parameter] : pipeline.state_dict()) {
    for (const Part& part : pipeline.parts()) part.path->wait_for(parameter);
  }
  add(pipeline.state_dict(), weights);
  add_loss(pipeline, weights);
}

/// All of them, as threads.
template <class Model>
Weights train_piped(const Training<Model>& training, const Layout& layout) {
  Weights weights;
  std::mutex mutex;
  run_ranks(layout.stages * layout.replicas, [&](Communicator& world) {
    Weights mine;
    train_rank(training, layout, world, mine);
    const std::lock_guard lock(mutex);
    for (const auto& [name, values] : mine) {  // those of replicas are equal
      CHECK_MESSAGE(weights.try_emplace(name, values).first->second == values, name);
    }
  });
  return weights;
}

}  // namespace capstan::distributed::pipeline::testing
