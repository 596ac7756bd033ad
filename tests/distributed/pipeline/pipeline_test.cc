// What a pipeline does beside being right: what it keeps, what it evaluates, what passes between
// stages, and the times it measures. (one_curve_test.cc has the numbers.)
#include "distributed/pipeline/pipeline.h"

#include <thread>

#include "autograd/reduce.h"
#include "core/allocator.h"
#include "core/create.h"
#include "distributed/pipeline/check.h"
#include "distributed/pipeline/draw.h"
#include "models/gpt.h"
#include "nn/batch_norm.h"
#include "nn/embedding.h"
#include "nn/layers.h"
#include "nn/sequential.h"
#include "nn/state.h"
#include "optim/sgd.h"
#include "tests/distributed/pipeline/training.h"

namespace capstan::distributed::pipeline::testing {
namespace {

MakePath plain_ddp(Communicator& data, int64_t shards = 0) {
  return [&data, shards](nn::Module& chunk) {
    return std::make_unique<Ddp>(chunk, data, DdpOptions{.virtual_shards = shards});
  };
}

Tensor mean_square(const Tensors& outputs, const Tensors&) { return mean(square(outputs[0])); }

std::vector<Microbatch> some_microbatches(int count, const Shape& shape) {
  Generator generator(3);
  std::vector<Microbatch> all;
  for (int i = 0; i < count; ++i) all.push_back({{randn(shape, 0, 1, {}, generator)}, {}});
  return all;
}

TEST_CASE("case 5: live activations of 4 stages, 8 microbatches") {
  const auto measure = [](const std::string& name, int chunks, const std::vector<int>& expected) {
    INFO(name);
    run_ranks(4, [&](Communicator& comm) {
      Deep model;
      const auto self = make_self();
      Pipeline pipeline(nn::Chain(model), comm,
                        {.schedule = name,
                         .chunks = chunks,
                         .microbatches = 8,
                         .loss = mean_square,
                         .cut = Cut(4 * chunks, 2 / chunks)},
                        plain_ddp(*self));
      pipeline.run(some_microbatches(8, {3, 5}));
      CHECK(pipeline.peak_live() == expected[comm.rank()]);
      CHECK(pipeline.peak_live() == peak_live(pipeline.schedule())[comm.rank()]);
    });
  };
  measure("1f1b", 1, {4, 3, 2, 1});
  measure("gpipe", 1, {8, 8, 8, 8});
  measure("zb-h1", 1, {4, 4, 4, 4});
  measure("interleaved", 2, {11, 9, 7, 5});
}

/// Layers whose outputs are large and kept by no formula: x + b.
struct Shift : nn::Module {
  nn::Parameter b{zeros({})};
  CAPSTAN_MODULE(Shift, b)
  Tensor forward(const Tensor& x) { return x + b; }
};

TEST_CASE("outputs are freed once they are sent; activations are gone after the step") {
  constexpr int64_t kElements = 1 << 20;
  std::atomic<int64_t> before = 0;
  int64_t peak = 0;
  run_ranks(2, [&](Communicator& comm) {
    nn::Sequential model{Shift(), Shift()};
    const auto self = make_self();
    Pipeline pipeline(nn::Chain(model), comm,
                      {.schedule = "gpipe", .microbatches = 8, .loss = mean_square, .cut = {1, 1}},
                      plain_ddp(*self));
    std::vector<Microbatch> data;
    for (int i = 0; i < 8; ++i)
      data.push_back({{zeros({kElements}, {.device = Device::meta()})}, {}});
    const Tensor one = zeros({kElements});
    for (Microbatch& part : data) part.inputs = {comm.rank() == 0 ? one : part.inputs[0]};
    comm.barrier().wait();
    if (comm.rank() == 0) {
      before = memory_stats({}).current;
      allocator({}).reset_peak();
    }
    comm.barrier().wait();
    pipeline.run(data);
    comm.barrier().wait();
    if (comm.rank() == 0) {
      peak = memory_stats({}).peak - before;
      CHECK(memory_stats({}).current - before < kElements);
    }
    comm.barrier().wait();
  });
  // The first stage keeps none of its 8 outputs; the second keeps 8 inputs of its loss. Beside them
  // there are those that are on their way.
  CHECK(peak < 13 * kElements * 4);
  CHECK(peak > 7 * kElements * 4);
}

TEST_CASE("other stages' parameters are on meta, and take no memory") {
  run_ranks(2, [](Communicator& comm) {
    Deep model;
    const auto self = make_self();
    Pipeline pipeline(nn::Chain(model), comm,
                      {.microbatches = 2, .loss = mean_square, .cut = {3, 5}}, plain_ddp(*self));
    for (int i = 0; i < 8; ++i) {
      const bool here = (i < 3) == (comm.rank() == 0);
      CHECK((model.layer[i].weight.device().kind == Device::Kind::cpu) == here);
    }
    CHECK(pipeline.parameters().size() == (comm.rank() == 0 ? 6 : 10));
    CHECK(pipeline.parameters()[0].first ==
          (comm.rank() == 0 ? "layer.0.weight" : "layer.3.weight"));
    CHECK(pipeline.parts()[0].chunk->describe() ==
          (comm.rank() == 0 ? "chunk 0 (layer.0 to layer.2)" : "chunk 1 (layer.3 to layer.7)"));
  });
}

TEST_CASE("evaluation: any number of microbatches, outputs on the last stage") {
  Generator generator(5);
  std::vector<Tensors> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back({randn({i + 1, 5}, 0, 1, {}, generator)});
  manual_seed(1);
  Deep whole;
  const auto evaluate = [&](int stages, const std::string& schedule, int chunks) {
    run_ranks(stages, [&](Communicator& comm) {
      manual_seed(1);
      Deep model;
      const auto self = make_self();
      Pipeline pipeline(nn::Chain(model), comm,
                        {.schedule = schedule,
                         .chunks = chunks,
                         .microbatches = 4,
                         .loss = mean_square,
                         .example = inputs[0]},
                        plain_ddp(*self));
      CHECK(pipeline.evaluate({}).empty());
      const std::vector<Tensors> outputs = pipeline.evaluate(inputs);
      REQUIRE(outputs.size() == (comm.rank() + 1 == stages ? 3 : 0));
      for (size_t i = 0; i < outputs.size(); ++i) {
        CHECK(!outputs[i][0].requires_grad());
        CHECK(outputs[i][0].to_vector<float>() ==
              no_grad([&] { return whole(inputs[i][0]); }).to_vector<float>());
      }
      pipeline.run(some_microbatches(4, {2, 5}));  // training goes on
    });
  };
  evaluate(1, "1f1b", 1);
  evaluate(3, "gpipe", 1);
  evaluate(2, "interleaved", 2);
}

/// Hands on four tensors; x[1] are row numbers.
struct Pair : nn::Module {
  nn::Linear a{4, 4}, b{4, 4};
  CAPSTAN_MODULE(Pair, a, b)
  Tensor forward(const Tensor& x) { return x; }
  nn::Layers layers() {
    const auto first = [this](const Tensors& x) {
      return Tensors{a(x[0]), x[1], x[0] * 2, relu(a(x[0]))};
    };
    const auto second = [this](const Tensors& x) {
      return Tensors{b(x[0]) + x[2] + cast(unsqueeze(x[1], 1), Dtype::float32), x[3]};
    };
    return {{"first", first, {&a}}, {"second", second, {&b}}};
  }
};

TEST_CASE("layers may hand on several tensors, some of them without gradients") {
  const auto loss = [](const Tensors& outputs, const Tensors& targets) {
    return mean(square(outputs[0] - targets[0])) + sum(outputs[1]);
  };
  Generator generator(5);
  const Tensors inputs{randn({6, 4}, 0, 1, {}, generator), arange(6)};
  const Tensors targets{randn({6, 4}, 0, 1, {}, generator)};
  manual_seed(1);
  Pair whole;
  Tensors values = inputs;
  for (const nn::Layer& layer : whole.layers()) values = layer.forward(values);
  backward(loss(values, targets));
  for (const std::string name : {"1f1b", "zb-h1"}) {
    run_ranks(2, [&](Communicator& comm) {
      manual_seed(1);
      Pair model;
      const auto self = make_self();
      Pipeline pipeline(nn::Chain(model), comm,
                        {.schedule = name, .microbatches = 3, .loss = loss, .example = inputs},
                        plain_ddp(*self));
      std::vector<Microbatch> parts = split(inputs, targets, 3);
      CHECK(parts[1].weight == 2);
      CHECK(parts[1].inputs[1].to_vector<int64_t>() == std::vector<int64_t>{2, 3});
      pipeline.run(parts);
      const nn::Linear& here = comm.rank() == 0 ? model.a : model.b;
      nn::Linear& expected = comm.rank() == 0 ? whole.a : whole.b;
      // The sum in the loss is not a mean: three thirds of it.
      if (comm.rank() == 1) {
        const auto got = here.weight.grad().to_vector<float>(),
                   want = expected.weight.grad().to_vector<float>();
        for (size_t i = 0; i < got.size(); ++i)
          CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
      } else {
        CHECK(here.weight.has_grad());
      }
    });
  }
}

TEST_CASE("frozen first layers: no gradient goes there") {
  for (const std::string name : {"1f1b", "zb-h1", "gpipe"}) {
    run_ranks(3, [&](Communicator& comm) {
      Deep model;
      for (int i = 0; i < 4; ++i) {
        for (const auto& [_, parameter] : model.layer[i].parameters())
          require_grad(parameter, false);
      }
      const auto self = make_self();
      Pipeline pipeline(
          nn::Chain(model), comm,
          {.schedule = name, .microbatches = 4, .loss = mean_square, .cut = {3, 3, 2}},
          plain_ddp(*self, 4));
      pipeline.run(some_microbatches(4, {2, 5}));
      CHECK(pipeline.parameters().size() == std::vector<size_t>{0, 4, 4}[comm.rank()]);
      CHECK((pipeline.parts()[0].path == nullptr) == (comm.rank() == 0));
      for (const auto& [_, parameter] : pipeline.parameters()) CHECK(parameter.has_grad());
      CHECK(pipeline.weight() == 4);
    });
  }
}

TEST_CASE("gradients of tied parameters once a step: the same but for rounding, and less traffic") {
  const models::GptShape shape{.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8};
  const Training<models::Gpt> training{
      [shape] { return models::Gpt(shape); },
      [](int step, int shard) {
        Generator generator(10 * step + shard);
        const Tensor tokens = randint({2, 6}, 0, 11, {.dtype = Dtype::int64}, generator);
        return Microbatch{{tokens}, {tokens}, shard == 7 ? 0.0 : 2.0, Generator(1)};
      }};
  const Weights each = train_alone(training);
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
    const Weights once = train_piped(training, {2, 1, schedule, 1, false});
    REQUIRE(once.size() == each.size());
    for (const auto& [name, values] : each) {
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(std::abs(once.at(name)[i] - values[i]) < 1e-3);
      }
    }
  }
}

TEST_CASE("a tied parameter has one entry, one owner, and equal copies") {
  const models::GptShape shape{.vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};
  run_ranks(2, [&](Communicator& comm) {
    manual_seed(comm.rank());  // copies get the owner's numbers
    models::Gpt model(shape);
    const auto self = make_self();
    Pipeline pipeline(
        nn::Chain(model), comm,
        {.microbatches = 2, .loss = classify, .example = {zeros({1, 6}, {.dtype = Dtype::int64})}},
        plain_ddp(*self));
    const auto has = [&](const std::string& name) {
      return std::ranges::any_of(pipeline.state_dict(),
                                 [&](const auto& entry) { return entry.first == name; });
    };
    CHECK(has("tokens.weight") == (comm.rank() == 0));
    CHECK(!has("head.weight"));
    CHECK(has("norm.weight") == (comm.rank() == 1));
    const auto check_copies = [&] {
      const Tensor& table = comm.rank() == 0 ? model.tokens.weight : model.head.weight;
      const Tensor sum = dense_copy(table);
      comm.all_reduce(sum, Reduce::max).wait();
      CHECK(sum.to_vector<float>() == table.to_vector<float>());
    };
    const Tensor tokens = randint({4, 6}, 0, 7);
    pipeline.evaluate({{tokens}});
    check_copies();
    optim::Sgd sgd(pipeline.parameters(), {});
    pipeline.run(split({tokens}, {tokens}, 2));
    sgd.step(0.1);
    pipeline.after_step();
    pipeline.evaluate({{tokens}});
    check_copies();
    if (comm.rank() == 0) {
      fill_elements(detach(model.tokens.weight), 3);  // a checkpoint, say
    }
    pipeline.after_step();
    pipeline.evaluate({{tokens}});
    check_copies();
  });
}

TEST_CASE("replicas that share out weights gather them once a run, and give them back") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh({{"pipeline", 2}, {"data", 2}});
    const auto stages = mesh.split(world, {"pipeline"}), data = mesh.split(world, {"data"});
    for (const int microbatches : {2, 5}) {
      Deep model;
      std::vector<Fsdp*> paths;
      Pipeline pipeline(nn::Chain(model), *stages,
                        {.microbatches = microbatches, .loss = mean_square, .cut = {4, 4}},
                        [&](nn::Module& chunk) {
                          auto fsdp = std::make_unique<Fsdp>(chunk, *data);
                          paths.push_back(fsdp.get());
                          return fsdp;
                        });
      int64_t bytes = 0;  // of the whole stage
      for (const Unit& unit : paths[0]->units()) bytes += unit.flats[0]->whole().bytes();
      const auto gathered = [&] {
        return std::ranges::any_of(paths[0]->units(),
                                   [](const Unit& u) { return u.flats[0]->is_gathered(); });
      };
      optim::Sgd sgd(pipeline.parameters(), {});
      for (int step = 0; step < 3; ++step) {
        int64_t before = paths[0]->bytes_sent();
        auto parts = some_microbatches(microbatches, {2, 5});
        if (data->rank() == 1) parts[step % 2].weight = 0;  // on one replica only
        pipeline.run(parts);
        CHECK(paths[0]->bytes_sent() - before == bytes / 2);
        CHECK(!gathered());
        sgd.step(0.1);
        pipeline.after_step();
        sgd.zero_grad();
        before = paths[0]->bytes_sent();
        pipeline.evaluate({parts[0].inputs, parts[1].inputs});
        CHECK(paths[0]->bytes_sent() - before == bytes / 2);
        CHECK(!gathered());
      }
    }
  });
}

/// Twelve equal layers, of which one is small beside all.
struct Wide : nn::Module {
  nn::ModuleList<nn::Linear> layer;
  CAPSTAN_MODULE(Wide, layer)
  Wide() {
    for (int i = 0; i < 12; ++i) layer.emplace_back(120, 120);
  }
  nn::Layers layers() {
    nn::Layers all;
    for (nn::Linear& l : layer) {
      all.emplace_back(
          "layer", [&l](const Tensor& x) { return l(x); }, std::vector<nn::Module*>{&l});
    }
    return all;
  }
  Tensor forward(const Tensor& x) { return nn::forward(layers(), x); }
};

TEST_CASE("stages of a model that is recorded have it once together, and not once each") {
  for (const bool recorded : {true, false}) {
    Allocator& cpu = allocator(Device());
    const int64_t before = cpu.stats().current;
    cpu.reset_peak();
    int64_t bytes = 0;
    run_ranks(4, [&](Communicator& stages) {
      Recipe recipe;
      Wide model = recorded ? recipe.record([] { return Wide(); }) : Wide();
      if (stages.rank() == 0) bytes = 4 * model.parameter_count();
      stages.barrier("each has one").wait();
      const auto self = make_self();
      const Pipeline pipeline(
          nn::Chain(model), stages,
          {.loss = classify, .cut = {3, 3, 3, 3}, .recipe = recorded ? &recipe : nullptr},
          plain_ddp(*self));
    });
    const int64_t peak = cpu.stats().peak - before;
    CAPTURE(bytes);
    CAPTURE(peak);
    // Weights and places for gradients, and on each rank the layer in hand.
    CHECK((peak < 3 * bytes) == recorded);
  }
}

TEST_CASE("buffers stay with their layers, and are averaged over replicas") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh({{"pipeline", 2}, {"data", 2}});
    const auto stages = mesh.split(world, {"pipeline"}), data = mesh.split(world, {"data"});
    nn::Sequential model{nn::Linear(5, 3), nn::BatchNorm1d(3), nn::Linear(3, 3)};
    Pipeline pipeline(nn::Chain(model), *stages,
                      {.microbatches = 2, .loss = mean_square, .cut = {1, 2}}, plain_ddp(*data));
    Generator generator(world.rank() % 2);
    std::vector<Microbatch> parts;
    for (int i = 0; i < 2; ++i) parts.push_back({{randn({4, 5}, 0, 1, {}, generator)}, {}, 4});
    pipeline.run(parts);
    CHECK(pipeline.state_dict().size() == (stages->rank() == 0 ? 2 : 6));
    for (const auto& [name, tensor] : pipeline.state_dict()) {
      if (!name.ends_with("running_mean")) continue;
      CHECK(sum(square(tensor)).item<float>() > 0);
      CHECK_NOTHROW(data->agree("running mean", to_string(tensor)));
    }
  });
}

TEST_CASE("measured times can be drawn beside the plan") {
  run_ranks(2, [](Communicator& comm) {
    Deep model;
    const auto self = make_self();
    Pipeline pipeline(nn::Chain(model), comm,
                      {.schedule = "zb-h1", .microbatches = 3, .loss = mean_square, .cut = {4, 4}},
                      plain_ddp(*self));
    pipeline.time_runs();
    pipeline.run(some_microbatches(3, {2, 5}));
    const Timeline measured = pipeline.timeline();
    REQUIRE(measured.stages.size() == 2);
    for (int stage = 0; stage < 2; ++stage) {
      const auto& spans = measured.stages[stage];
      const auto planned = simulate(pipeline.schedule()).stages[stage];
      REQUIRE(spans.size() == planned.size());
      for (size_t i = 0; i < spans.size(); ++i) {
        CHECK(spans[i].pass == planned[i].pass);
        CHECK(spans[i].begin <= spans[i].end);
        if (i > 0) CHECK(spans[i - 1].end <= spans[i].begin);
      }
    }
    // A pass on the second stage follows the one it waits for. (Clocks start a little apart.)
    CHECK(measured.stages[1][0].begin > measured.stages[0][0].end - 0.01);
    CHECK(draw_text(pipeline.schedule(), measured, 80).find("stage 1") != std::string::npos);
  });
}

}  // namespace
}  // namespace capstan::distributed::pipeline::testing
