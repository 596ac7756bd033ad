// The weights of a pipeline are those of one rank to the last bit: every schedule, any number of
// stages and replicas, tied parameters, dropout, microbatches of different sizes and without data.
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "tests/distributed/pipeline/training.h"

namespace capstan::distributed::pipeline::testing {
namespace {

std::string describe(const Layout& layout) {
  return layout.schedule + " on " + std::to_string(layout.stages) + " stages of " +
         std::to_string(layout.chunks) + ", " + std::to_string(layout.replicas) +
         " replicas, ZeRO " + std::to_string(layout.zero);
}

/// Every schedule that there can be on so many stages, with `layers` layers.
std::vector<Layout> layouts(const std::vector<int>& stages, int layers) {
  std::vector<Layout> all;
  for (const int p : stages) {
    for (const int d : {1, 2}) {
      for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) all.push_back({p, d, schedule});
      if (p >= 2 && kShards / d % p == 0 && 2 * p <= layers) {
        all.push_back({p, d, "interleaved", 2});
      }
    }
  }
  return all;
}

template <class Model>
void compare(const Training<Model>& training, const std::vector<Layout>& layouts) {
  const Weights alone = train_alone(training);
  for (const Layout& layout : layouts) {
    INFO(describe(layout));
    CHECK(train_piped(training, layout) == alone);
  }
}

TEST_CASE("eight layers, on 1 to 8 stages") {
  compare(deep_training(), layouts({1, 2, 3, 4, 6}, 8));
}

/// The same, where replicas share out what they have of a chunk.
std::vector<Layout> sharded(std::vector<Layout> layouts) {
  std::erase_if(layouts, [](const Layout& layout) { return layout.replicas == 1; });
  layouts.back().recorded = true;
  const size_t count = layouts.size();
  for (size_t i = 0; i < count; ++i) {
    layouts[i].zero = 3;
    Layout other = layouts[i];
    other.zero = 1 + static_cast<int>(i) % 2;
    layouts.push_back(other);
  }
  return layouts;
}

TEST_CASE("eight layers, sharded") { compare(deep_training(), sharded(layouts({1, 2, 3}, 8))); }

TEST_CASE("as many stages as layers") {
  compare(deep_training(), {{8, 1, "gpipe"}, {8, 1, "1f1b"}, {8, 1, "zb-h1"}});
}

TEST_CASE("microbatches without data") {
  compare(deep_training(true), layouts({2, 3}, 8));
  compare(deep_training(true), sharded(layouts({2, 3}, 8)));
}

TEST_CASE("GPT, with tied ends and dropout") {
  const models::GptShape shape{.vocabulary = 11, .context = 6, .layers = 6, .heads = 2, .width = 8};
  const auto tokens = [](int64_t rows, int64_t seed) {
    Generator generator(seed);
    return randint({rows, 6}, 0, 11, {.dtype = Dtype::int64}, generator);
  };
  const Training<models::Gpt> training{[shape] { return models::Gpt(shape, 0.1); },
                                       [tokens](int step, int shard) {
                                         const int64_t rows = 1 + shard % 2,
                                                       seed = 10 * step + shard;
                                         return Microbatch{{tokens(rows, seed)},
                                                           {tokens(rows, seed + 1000)},
                                                           static_cast<double>(rows),
                                                           Generator(step).fork(shard)};
                                       }};
  compare(training, layouts({1, 2, 4}, 8));
  compare(training, sharded(layouts({2, 4}, 8)));
}

TEST_CASE("models that are recorded, of which each stage makes its own numbers") {
  const models::GptShape shape{.vocabulary = 11, .context = 6, .layers = 6, .heads = 2, .width = 8};
  const Training<models::Gpt> gpt{
      [shape] { return models::Gpt(shape); },
      [](int step, int shard) {
        Generator generator(10 * step + shard);
        const Tensor tokens = randint({2, 6}, 0, 11, {.dtype = Dtype::int64}, generator);
        return Microbatch{{tokens}, {tokens}, 2, Generator(1)};
      }};
  std::vector<Layout> recorded = layouts({1, 2, 4}, 8);
  for (Layout& layout : recorded) layout.recorded = true;
  compare(gpt, recorded);
  compare(deep_training(), recorded);
}

template <class Model>
Training<Model> image_training() {
  return {[] { return Model(0.2); },
          [](int step, int shard) {
            Generator generator(10 * step + shard);
            return Microbatch{{rand({2, 1, 28, 28}, 0, 1, {}, generator)},
                              {randint({2}, 0, 10, {.dtype = Dtype::int64}, generator)},
                              2,
                              Generator(step).fork(shard)};
          }};
}

TEST_CASE("LeNet") {
  compare(
      image_training<models::LeNet>(),
      {{2, 1, "gpipe"}, {2, 2, "1f1b"}, {2, 1, "interleaved", 2}, {4, 1, "1f1b"}, {4, 2, "zb-h1"}});
  compare(image_training<models::LeNet>(), sharded({{2, 2, "zb-h1"}}));
}

TEST_CASE("MLP") {
  compare(image_training<models::Mlp>(), {{2, 2, "gpipe"}, {2, 1, "zb-h1"}, {3, 1, "1f1b"}});
}

}  // namespace
}  // namespace capstan::distributed::pipeline::testing
