// Ddp across processes: every rank ends with the weights of one rank that has the whole batch.
#include <doctest/doctest.h>

#include <bit>

#include "autograd/elementwise.h"
#include "autograd/softmax.h"
#include "core/random.h"
#include "core/sha256.h"
#include "distributed/comm/mpi.h"
#include "distributed/comm/self.h"
#include "distributed/ddp.h"
#include "nn/linear.h"
#include "optim/adamw.h"

namespace capstan::distributed {
namespace {

struct Net : nn::Module {
  nn::Linear in{9, 33}, out{33, 4};
  CAPSTAN_MODULE(Net, in, out)
  Tensor forward(const Tensor& x) { return out(relu(in(x))); }
};

TEST_CASE("processes train like one process with the whole batch") {
  auto comm = make_mpi();
  const int64_t global = 13;  // uneven on any number of ranks
  manual_seed(comm->rank());  // rank 0's weights must reach the others
  Net model;
  manual_seed(0);
  Net alone;
  Ddp ddp(model, *comm, {.first_bucket_bytes = 128, .bucket_bytes = 512});
  optim::AdamW together(model.parameters()), single(alone.parameters());
  Generator generator(4);
  for (int step = 0; step < 10; ++step) {
    const Tensor x = randn({global, 9}, 0, 1, {}, generator);
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < global; ++i) labels.push_back((i + step) % 4);
    const Tensor y = from_vector(labels, {global});
    const Tensor loss = cross_entropy(alone(x), y);
    backward(loss);
    single.step(0.01);
    single.zero_grad();

    const Tensor mine =
        dense_copy(view_of(x, x.layout().sliced(0, comm->rank(), global, comm->size())));
    const Tensor labels_here =
        dense_copy(view_of(y, y.layout().sliced(0, comm->rank(), global, comm->size())));
    ddp.backward(cross_entropy(model(mine), labels_here), static_cast<double>(mine.size(0)));
    CHECK(ddp.loss() == doctest::Approx(loss.item<double>()).epsilon(1e-5));
    together.step(0.01);
    together.zero_grad();
  }
  Sha256 hash;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const Tensor w = model.parameters()[i].second;
    const auto got = w.to_vector<float>(), wanted = alone.parameters()[i].second.to_vector<float>();
    for (size_t k = 0; k < got.size(); ++k) CHECK(std::abs(got[k] - wanted[k]) < 2e-4);
    hash.update(std::as_bytes(std::span(got)));
  }
  CHECK_NOTHROW(comm->agree("weights", hash.hex()));
}

/// The bits of the weights after 10 steps of 13 samples in 4 virtual shards.
std::string train_in_shards(Communicator& comm) {
  constexpr int64_t kShards = 4, kGlobal = 13;
  manual_seed(0);
  Net model;
  Ddp ddp(model, comm, {.virtual_shards = kShards});
  optim::AdamW adamw(model.parameters());
  Generator generator(4);
  const int64_t passes = kShards / comm.size();
  for (int step = 0; step < 10; ++step) {
    const Tensor x = randn({kGlobal, 9}, 0, 1, {}, generator);
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t shard = comm.rank() * passes + pass;
      const Tensor mine = dense_copy(view_of(x, x.layout().sliced(0, shard, kGlobal, kShards)));
      const Tensor labels =
          full({mine.size(0)}, static_cast<double>(shard % 4), {.dtype = Dtype::int64});
      ddp.backward(cross_entropy(model(mine), labels), static_cast<double>(mine.size(0)),
                   pass + 1 == passes ? Sync::yes : Sync::no);
    }
    adamw.step(0.01);
    adamw.zero_grad();
  }
  Sha256 hash;
  for (const auto& [_, parameter] : model.parameters()) {
    const std::vector<float> weights = parameter.to_vector<float>();
    hash.update(std::as_bytes(std::span(weights)));
  }
  return hash.hex();
}

TEST_CASE("in virtual shards, processes train like one process to the last bit") {
  const std::string alone = train_in_shards(*make_self());
  for (bool share : {true, false}) {
    const auto comm = make_mpi({.share_memory = share});
    // Of 3 ranks two can share the shards evenly, of 5 four.
    const int even = static_cast<int>(std::bit_floor(static_cast<unsigned>(comm->size())));
    const auto part = comm->split(comm->rank() < even ? 0 : -1);
    if (part) CHECK(train_in_shards(*part) == alone);
    comm->barrier().wait();
  }
}

}  // namespace
}  // namespace capstan::distributed
