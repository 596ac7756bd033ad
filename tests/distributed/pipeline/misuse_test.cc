// What is refused, on all ranks with the same words; and errors on one stage, which end all.
#include "core/error.h"
#include "distributed/pipeline/pipeline.h"
#include "models/gpt.h"
#include "nn/batch_norm.h"
#include "nn/embedding.h"
#include "nn/layers.h"
#include "nn/sequential.h"
#include "tests/distributed/pipeline/training.h"

namespace capstan::distributed::pipeline::testing {
namespace {

MakePath plain_ddp(Communicator& data) {
  return [&data](nn::Module& chunk) { return std::make_unique<Ddp>(chunk, data); };
}

/// The words with which all ranks refuse to make a pipeline; all must have said the same.
template <class Model>
std::string refusal(int ranks, const std::function<Model()>& make, const PipelineOptions& options) {
  std::vector<std::string> words(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    Model model = make();
    const auto self = make_self();
    try {
      Pipeline pipeline(nn::Chain(model), comm, options, plain_ddp(*self));
    } catch (const Error& error) {
      words[comm.rank()] = error.what();
    }
  });
  for (const std::string& text : words) CHECK(text == words[0]);
  return words[0];
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, part);
  return found;
}

TEST_CASE("options that do not fit") {
  const auto refused = [](int ranks, PipelineOptions options) {
    if (!options.loss) options.loss = classify;
    return refusal<Deep>(
        ranks, [] { return Deep(); }, options);
  };
  const Tensors x{zeros({2, 5})};
  CHECK(has(refused(2, {.schedule = "2f2b", .example = x}), "got '2f2b'"));
  CHECK(has(refused(2, {.schedule = "forward", .example = x}), "no schedule to train with"));
  CHECK(has(refused(2, {.chunks = 0, .example = x}), "got 0"));
  CHECK(has(refused(2, {.chunks = 2, .example = x}), "1f1b has one chunk a stage, got 2"));
  CHECK(has(refused(2, {.microbatches = 0, .example = x}), "microbatches, got 0"));
  CHECK(has(refused(3, {.schedule = "interleaved", .chunks = 2, .microbatches = 4, .example = x}),
            "multiple of 3 microbatches"));
  CHECK(has(refused(3, {.schedule = "interleaved", .chunks = 3, .microbatches = 3, .example = x}),
            "3 stages of 3 chunks need a layer each, the model has 8"));
  CHECK(has(refused(2, {}), "a cut, or an example"));
  CHECK(has(refused(2, {.cut = {3, 3, 2}}), "the cut has 3 parts"));
  CHECK(has(refused(2, {.cut = {3, 4}}), "must add up to 8, got 3, 4"));
  CHECK(has(refused(2, {.cut = {8, 0}}), "must add up to 8"));
  CHECK(has(refused(2, {.example = {zeros({2, 6})}}), "layer 'layer.0' cannot run on meta"));
  CHECK(has(refused(2, {.example = {zeros({2, 5}), zeros({2})}}), "layer 'layer.0'"));
  std::string words;
  run_ranks(1, [&](Communicator& comm) {
    Deep model;
    CHECK_THROWS_AS(Pipeline(nn::Chain(model), comm, {.example = x}, plain_ddp(comm)), ValueError);
  });
}

/// Any layers.
struct Net : nn::Module {
  nn::Linear a{4, 4}, b{4, 4}, c{4, 4};
  nn::BatchNorm1d norm{4};
  CAPSTAN_MODULE(Net, a, b, c, norm)
  std::function<nn::Layers(Net&)> make = [](Net&) { return nn::Layers(); };
  nn::Layers layers() { return make(*this); }
  Tensor forward(const Tensor& x) { return x; }
};

nn::Layer layer(const std::string& name, std::vector<nn::Module*> modules) {
  return {name, [](const Tensor& x) { return x; }, std::move(modules)};
}

TEST_CASE("layers that do not fit") {
  const auto refused = [](const std::function<nn::Layers(Net&)>& make, const Cut& cut) {
    return refusal<Net>(2,
                        [&] {
                          Net net;
                          net.make = make;
                          return net;
                        },
                        {.loss = classify, .cut = cut});
  };
  CHECK(has(refused([](Net&) { return nn::Layers(); }, {1, 1}), "no layers"));
  CHECK(has(refused(
                [](Net& n) {
                  return nn::Layers{layer("one", {&n.a, &n.norm}), layer("two", {&n.b})};
                },
                {1, 1}),
            "no layer uses the parameter 'c.weight'"));
  static nn::Linear stranger(4, 4);
  CHECK(has(
      refused(
          [](Net& n) {
            return nn::Layers{layer("one", {&n.a, &n.norm, &n.c}), layer("two", {&n.b, &stranger})};
          },
          {1, 1}),
      "layer 'two' lists a Linear that is not part of the model"));
  CHECK(has(
      refused(
          [](Net& n) {
            return nn::Layers{layer("one", {&n.a, &n.c, &n.norm}), layer("two", {&n.b, &n.norm})};
          },
          {1, 1}),
      "the buffer 'norm.running_mean' would be on chunks 0, 1"));
  CHECK(has(refused(
                [](Net& n) {
                  return nn::Layers{layer("one", {&n.a, &n.b, &n.c, &n.norm}), layer("two", {})};
                },
                {1, 1}),
            "chunk 1 (two) is the last one and has no parameter of its own to train"));
}

TEST_CASE("a tied parameter where it cannot be") {
  const auto make = [] {
    nn::Sequential net;
    for (int i = 0; i < 4; ++i) net.add(nn::Linear(3, 3));
    nn::tie(static_cast<nn::Linear&>(net[0]).weight, static_cast<nn::Linear&>(net[2]).weight);
    return net;
  };
  CHECK(has(refusal<nn::Sequential>(2, make,
                                    {.schedule = "interleaved",
                                     .chunks = 2,
                                     .microbatches = 2,
                                     .loss = classify,
                                     .cut = {1, 1, 1, 1}}),
            "'0.weight' is used by the chunks 0, 2, two of them on stage 0"));
}

TEST_CASE("ranks that differ") {
  run_ranks(2, [](Communicator& comm) {
    Deep model;
    const auto self = make_self();
    const PipelineOptions options{.microbatches = 2 + comm.rank(), .loss = classify, .cut = {4, 4}};
    CHECK_THROWS_AS(Pipeline(nn::Chain(model), comm, options, plain_ddp(*self)), SharedError);
  });
  run_ranks(2, [](Communicator& comm) {
    Deep model;
    if (comm.rank() == 1) model.layer[6].to(Device::meta());
    const auto self = make_self();
    try {
      Pipeline pipeline(nn::Chain(model), comm, {.loss = classify, .cut = {4, 4}},
                        plain_ddp(*self));
      FAIL("made");
    } catch (const SharedError& error) {
      CHECK(has(error.what(), ": [pipeline] 'layer.6.weight' is of this stage, but on meta"));
    }
  });
}

TEST_CASE("recipes that do not fit") {
  const auto refused = [](const std::function<Deep(Recipe&, int)>& make,
                          const std::function<const Recipe*(const Recipe&, int)>& given) {
    std::vector<std::string> words(2);
    run_ranks(2, [&](Communicator& comm) {
      Recipe recipe;
      Deep model = make(recipe, comm.rank());
      const auto self = make_self();
      try {
        Pipeline pipeline(nn::Chain(model), comm,
                          {.loss = classify, .cut = {4, 4}, .recipe = given(recipe, comm.rank())},
                          plain_ddp(*self));
      } catch (const SharedError& error) {
        words[comm.rank()] = error.what();
      }
    });
    CHECK(words[0] == words[1]);
    return words[0];
  };
  const auto recorded = [](Recipe& recipe, int seed) {
    manual_seed(seed);
    return recipe.record([] { return Deep(); });
  };
  const auto same = [&](Recipe& recipe, int) { return recorded(recipe, 1); };
  const auto its_own = [](const Recipe& recipe, int) { return &recipe; };
  CHECK(has(refused(recorded, its_own), "its seed, say"));
  CHECK(has(refused(same, [](const Recipe& r, int rank) { return rank == 0 ? &r : nullptr; }),
            "its seed, say"));
  CHECK(has(refused([](Recipe&, int) { return Deep(); }, its_own),
            "'layer.0.weight' is on cpu:0: a recipe comes with a model that is on meta"));
  CHECK(has(refused(same, [](const Recipe&, int) { return nullptr; }),
            "'layer.0.weight' is of this stage, but on meta: it had no numbers and no recipe"));
  static const Recipe empty;
  CHECK(has(refused(same, [](const Recipe&, int) { return &empty; }),
            "was not made while this recipe recorded"));
}

/// A pipeline of Deep on two ranks.
void with_pipeline(const std::function<void(Communicator&, Pipeline&)>& body,
                   Loss loss = classify) {
  run_ranks(2, [&](Communicator& comm) {
    Deep model;
    const auto self = make_self();
    Pipeline pipeline(nn::Chain(model), comm,
                      {.microbatches = 2, .loss = loss, .example = {zeros({2, 5})}},
                      plain_ddp(*self));
    body(comm, pipeline);
  });
}

std::vector<Microbatch> good(int count = 2) {
  return split({zeros({2 * count, 5})}, {zeros({2 * count}, {.dtype = Dtype::int64})}, count);
}

TEST_CASE("runs that are refused leave the pipeline as it was") {
  with_pipeline([](Communicator&, Pipeline& pipeline) {
    CHECK_THROWS_WITH_AS(pipeline.run(good(3)), "[pipeline] a step is 2 microbatches, got 3",
                         ValueError);
    auto parts = good();
    parts[1].weight = -1;
    CHECK_THROWS_AS(pipeline.run(parts), ValueError);
    parts[1].weight = std::nan("");
    CHECK_THROWS_AS(pipeline.run(parts), ValueError);
    parts = good();
    parts[0].inputs = {zeros({2, 9})};
    CHECK_THROWS_AS(pipeline.run(parts), ValueError);
    CHECK_THROWS_AS(pipeline.pass([] {}, {}, Sync::yes), ValueError);
    CHECK_THROWS_AS(pipeline.backward_without_data(Sync::yes), ValueError);
    CHECK_THROWS_AS(pipeline.clip_grad_norm(0), ValueError);
    pipeline.run(good());
    CHECK(pipeline.weight() == 4);
  });
}

TEST_CASE("microbatches that differ between stages") {
  with_pipeline([](Communicator& comm, Pipeline& pipeline) {
    auto parts = good();
    parts[1].weight = 1 + comm.rank();
    CHECK_THROWS_AS(pipeline.run(parts), SharedError);
  });
}

/// All ranks of a run must throw these words.
void ends_with(const std::string& words, const std::function<void(Pipeline&)>& run,
               Loss loss = classify) {
  std::vector<std::string> texts(2);
  with_pipeline(
      [&](Communicator& comm, Pipeline& pipeline) {
        try {
          run(pipeline);
        } catch (const SharedError& error) {
          texts[comm.rank()] = error.what();
        }
        CHECK_THROWS_AS(pipeline.run(good()), SharedError);  // it is of no more use
      },
      loss);
  CHECK(texts[0] == texts[1]);
  CHECK(has(texts[0], words));
}

TEST_CASE("an error on one stage ends all, with the same text") {
  ends_with(": [cross_entropy]", [](Pipeline& pipeline) {
    auto parts = good();
    parts[1].targets = {full({2}, 77, {.dtype = Dtype::int64})};
    pipeline.run(parts);
  });
  ends_with(
      ": [pipeline] a loss is one element", [](Pipeline& pipeline) { pipeline.run(good()); },
      [](const Tensors& outputs, const Tensors&) { return outputs[0]; });
  ends_with("the gradients of the last window are still there", [](Pipeline& pipeline) {
    pipeline.run(good());
    pipeline.run(good());
  });
  ends_with("is not finite", [](Pipeline& pipeline) {
    auto parts = good();
    parts[0].inputs = {full({2, 5}, std::nan(""))};
    pipeline.run(parts);
    pipeline.clip_grad_norm(1);
  });
}

/// Does not do on a CPU what it does on meta.
struct Odd : nn::Module {
  nn::Linear a{4, 4}, b{4, 4};
  CAPSTAN_MODULE(Odd, a, b)
  bool throws = false;
  Tensor forward(const Tensor& x) { return x; }
  nn::Layers layers() {
    const auto first = [this](const Tensor& x) {
      const bool real = x.device().kind == Device::Kind::cpu;
      if (real && throws) throw ValueError("[odd] no");
      return real ? flatten(a(x)) : a(x);
    };
    return {{"first", first, {&a}}, {"second", [this](const Tensor& x) { return b(x); }, {&b}}};
  }
};

TEST_CASE("a layer that throws, and one that gives other shapes than on meta") {
  for (const bool throws : {true, false}) {
    std::vector<std::string> texts(2);
    run_ranks(2, [&](Communicator& comm) {
      Odd model;
      model.throws = throws;
      const auto self = make_self();
      Pipeline pipeline(nn::Chain(model), comm,
                        {.microbatches = 2, .loss = classify, .example = {zeros({2, 4})}},
                        plain_ddp(*self));
      try {
        pipeline.run(split({zeros({4, 4})}, {zeros({4}, {.dtype = Dtype::int64})}, 2));
      } catch (const SharedError& error) {
        texts[comm.rank()] = error.what();
      }
    });
    CHECK(texts[0] == texts[1]);
    CHECK(has(texts[0], throws ? ": [odd] no" : ": [pipeline] chunk 0 (first) gave float32 [8]"));
  }
}

TEST_CASE("batches that cannot be split") {
  CHECK_THROWS_WITH_AS(split({zeros({7, 2})}, {}, 2),
                       "[split] 7 samples cannot be cut into 2 equal microbatches", ValueError);
  CHECK_THROWS_AS(split({zeros({4, 2})}, {zeros({3})}, 2), ShapeError);
  CHECK_THROWS_AS(split({zeros({})}, {}, 1), ShapeError);
  CHECK_THROWS_AS(split({}, {zeros({3})}, 1), ValueError);
  CHECK_THROWS_AS(split({zeros({4})}, {}, 0), ValueError);
}

}  // namespace
}  // namespace capstan::distributed::pipeline::testing
