// Pipelines across processes: the weights of one process, to the last bit, with and without
// replicas; and an error on one stage, which ends all.
#include <cstring>

#include "core/sha256.h"
#include "distributed/comm/mpi.h"
#include "models/gpt.h"
#include "tests/distributed/pipeline/training.h"

namespace capstan::distributed::pipeline::testing {
namespace {

/// The weights of all ranks together, on each.
std::string hash(const Weights& mine, Communicator& comm) {
  Weights all;
  for (const std::string& text : comm.all_gather_strings([&] {
         std::string text;
         for (const auto& [name, values] : mine) {
           text += name + ' ' + std::to_string(values.size()) + ' ';
           text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
         }
         return text;
       }())) {
    for (size_t at = 0; at < text.size();) {
      const size_t name = text.find(' ', at), count = text.find(' ', name + 1);
      std::vector<float> values(std::stoul(text.substr(name + 1)));
      std::memcpy(values.data(), text.data() + count + 1, values.size() * sizeof(float));
      all[text.substr(at, name - at)] = values;
      at = count + 1 + values.size() * sizeof(float);
    }
  }
  Sha256 sum;
  for (const auto& [name, values] : all) {
    sum.update(std::as_bytes(std::span(name)));
    sum.update(std::as_bytes(std::span(values)));
  }
  return sum.hex();
}

template <class Model>
void compare(const Training<Model>& training, const std::vector<Layout>& layouts) {
  const auto self = make_self();
  const std::string alone = hash(train_alone(training), *self);
  const auto comm = make_mpi();
  for (const Layout& layout : layouts) {
    if (layout.stages * layout.replicas != comm->size()) continue;
    INFO(layout.schedule);
    Weights mine;
    train_rank(training, layout, *comm, mine);
    CHECK(hash(mine, *comm) == alone);
  }
}

TEST_CASE("eight layers") {
  compare(deep_training(true), {{1, 1, "1f1b"},
                                {2, 1, "1f1b"},
                                {2, 1, "interleaved", 2},
                                {1, 2, "gpipe"},
                                {4, 1, "zb-h1"},
                                {4, 1, "interleaved", 2},
                                {2, 2, "1f1b"},
                                {3, 1, "zb-h1"},
                                {6, 1, "gpipe"},
                                {3, 2, "1f1b"},
                                {8, 1, "1f1b"},
                                {4, 2, "zb-h1"}});
}

TEST_CASE("GPT, with tied ends") {
  const models::GptShape shape{.vocabulary = 11, .context = 6, .layers = 6, .heads = 2, .width = 8};
  const Training<models::Gpt> training{
      [shape] { return models::Gpt(shape, 0.1); },
      [](int step, int shard) {
        Generator generator(10 * step + shard);
        const Tensor tokens = randint({2, 6}, 0, 11, {.dtype = Dtype::int64}, generator);
        return Microbatch{{tokens}, {tokens}, 2, Generator(step).fork(shard)};
      }};
  compare(training, {{2, 1, "zb-h1"},
                     {2, 2, "1f1b"},
                     {4, 1, "interleaved", 2},
                     {8, 1, "1f1b"},
                     {2, 2, "interleaved", 2, true, 3},
                     {3, 2, "zb-h1", 1, true, 3},
                     {4, 2, "1f1b", 1, true, 3}});
}

TEST_CASE("an error on one stage ends all, with the same text") {
  const auto comm = make_mpi();
  if (comm->size() == 1) return;
  Deep model;
  const auto self = make_self();
  Pipeline pipeline(nn::Chain(model), *comm,
                    {.microbatches = 4, .loss = classify, .example = {zeros({2, 5})}},
                    [&](nn::Module& chunk) { return std::make_unique<Ddp>(chunk, *self); });
  const Tensor labels = full({8}, 77, {.dtype = Dtype::int64});
  std::string text;
  try {
    pipeline.run(split({zeros({8, 5})}, {labels}, 4));
  } catch (const SharedError& error) {
    text = error.what();
  }
  const int last = comm->size() - 1;
  CHECK(text.find("rank " + std::to_string(last) + " on " + comm->host(last) +
                  ": [cross_entropy]") == 0);
}

}  // namespace
}  // namespace capstan::distributed::pipeline::testing
