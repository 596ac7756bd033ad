// SyncBatchNorm against BatchNorm on the joined batch: outputs, gradients, running statistics,
// whatever the ranks' shares.
#include "distributed/sync_batch_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/linear.h"
#include "nn/state.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kChannels = 3;

/// Rank r's samples: none on rank 1, then 3, 4, ...; far from 0, where digits are easily lost.
Tensor batch_of(int rank, Dtype dtype, bool images) {
  const int64_t n = rank == 1 ? 0 : rank + 2;
  Generator generator(rank + 1);
  const Shape shape = images ? Shape{n, kChannels, 2, 3} : Shape{n, kChannels};
  return randn(shape, 20, 3, {.dtype = dtype}, generator);
}

void check_close(const Tensor& got, const Tensor& wanted, double tolerance) {
  REQUIRE(got.shape() == wanted.shape());
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance);
}

template <class Layer>
void compare(int ranks, Dtype dtype, bool images, double tolerance) {
  CAPTURE(ranks);
  CAPTURE(to_string(dtype));
  run_ranks(ranks, [&](Communicator& comm) {
    Layer layer(kChannels), alone(kChannels);
    layer.to(dtype);
    alone.to(dtype);
    for (Layer* each : {&layer, &alone}) {
      copy_elements(from_vector<float>({0.5f, -2, 3}, {3}), *each->weight);
      copy_elements(from_vector<float>({1, 0, -1}, {3}), *each->bias);
    }
    CHECK(sync_batch_norm(layer, comm) == 1);

    std::vector<Tensor> parts;
    int64_t before = 0, rows = 0;
    for (int r = 0; r < ranks; ++r) {
      if (r < comm.rank()) before += batch_of(r, dtype, images).size(0);
      parts.push_back(batch_of(r, dtype, images));
      rows += parts.back().size(0);
    }
    const Tensor joined = cat(parts), mine = parts[comm.rank()];
    const int64_t after = before + mine.size(0);
    require_grad(joined);
    require_grad(mine);
    Generator generator(99);
    const Tensor factor = randn(joined.shape(), 0, 1, {.dtype = dtype}, generator);

    const Tensor wanted = alone(joined), got = layer(mine);
    check_close(got, slice(wanted, 0, before, after), tolerance);
    backward(sum(square(wanted) * factor));
    backward(sum(square(got) * slice(factor, 0, before, after)));
    check_close(mine.grad(), slice(joined.grad(), 0, before, after), 10 * tolerance);
    check_close(layer.running_mean, alone.running_mean, tolerance);
    check_close(layer.running_var, alone.running_var, tolerance);
    // The gradients of weight and bias are this rank's share: a Ddp adds them up.
    for (const auto& [share, whole] :
         {std::pair(layer.weight, alone.weight), {layer.bias, alone.bias}}) {
      const Tensor total = dense_copy(share->grad());
      comm.all_reduce(total).wait();
      check_close(total, whole->grad(), 100 * tolerance);
    }
    layer.eval();
    alone.eval();
    check_close(layer(mine), alone(mine), 10 * tolerance);
    CHECK(layer.running_mean.policy == nn::BufferPolicy::replicated);
  });
}

TEST_CASE("outputs, gradients and running statistics are those of one rank with all samples") {
  for (int ranks : {1, 2, 3, 4, 5}) {
    compare<nn::BatchNorm1d>(ranks, Dtype::float64, false, 1e-10);
    compare<nn::BatchNorm2d>(ranks, Dtype::float64, true, 1e-10);
    compare<nn::BatchNorm2d>(ranks, Dtype::float32, true, 1e-5);
  }
}

struct Net : nn::Module {
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm2d norm{4};
  std::vector<nn::BatchNorm1d> more;
  nn::Linear out{4, 2};
  CAPSTAN_MODULE(Net, conv, norm, more, out)
  Net() { more.emplace_back(4); }
  Tensor forward(const Tensor& x) {
    const Tensor h = mean(relu(norm(conv(x))), {2, 3});
    return mean(square(out(more[0](h))), {1});
  }
};

TEST_CASE("a converted model under Ddp trains like one rank with the whole batch") {
  for (int ranks : {1, 2, 3, 4, 5}) {
    CAPTURE(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      manual_seed(1);
      Net model;
      model.to(Dtype::float64);
      Net alone = model.clone();
      const NamedTensors names = nn::state_dict(model);
      CHECK(sync_batch_norm(model, comm) == 2);
      CHECK(nn::state_dict(model).size() == names.size());
      Ddp ddp(model, comm, {.first_bucket_bytes = 64, .bucket_bytes = 64, .check_replicas = 1});
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        alone.zero_grad();
        std::vector<Tensor> parts;
        for (int r = 0; r < ranks; ++r) {
          Generator generator(10 * step + r);
          parts.push_back(randn({r + 2, 1, 5, 5}, 0, 1, {.dtype = Dtype::float64}, generator));
        }
        ddp.backward(mean(model(parts[comm.rank()])), comm.rank() + 2);
        const Tensor loss = mean(alone(cat(parts)));
        backward(loss);
        CHECK(ddp.loss() == doctest::Approx(loss.item<double>()).epsilon(1e-10));
        const NamedTensors got = model.parameters(), wanted = alone.parameters();
        for (size_t i = 0; i < got.size(); ++i) {
          check_close(got[i].second.grad(), wanted[i].second.grad(), 1e-10);
        }
        for (size_t i = 0; i < names.size(); ++i) {
          check_close(nn::state_dict(model)[i].second, nn::state_dict(alone)[i].second, 1e-10);
        }
      }
    });
  }
}

TEST_CASE("a batch that no rank has teaches nothing; one value over all ranks is no batch") {
  run_ranks(3, [](Communicator& comm) {
    nn::BatchNorm1d layer(2);
    sync_batch_norm(layer, comm);
    CHECK(layer(zeros({0, 2})).shape() == Shape{0, 2});
    CHECK(layer.running_var.to_vector<float>() == std::vector<float>(2, 1));
    const Tensor x = zeros({comm.rank() == 2 ? 1 : 0, 2});
    CHECK_THROWS_WITH_AS(layer(x), doctest::Contains("more than one value a channel"), ShapeError);
    CHECK_NOTHROW(layer(zeros({1, 2})));  // three over all
  });
}

TEST_CASE("half precision, of the layer or of the products around it, is computed in float32") {
  run_ranks(2, [](Communicator& comm) {
    Generator generator(comm.rank() + 1);
    const Tensor x = cast(randn({4, 3}, 20, 1, {}, generator), Dtype::bfloat16);
    nn::BatchNorm1d exact(3), half(3), autocast(3);
    half.to(Dtype::bfloat16);
    for (nn::BatchNorm1d* each : {&exact, &half, &autocast}) sync_batch_norm(*each, comm);
    const std::vector<float> wanted = exact(cast(x, Dtype::float32)).to_vector<float>();
    const std::vector<float> got = half(x).to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 0.02);
    const Autocast guard(Dtype::bfloat16);
    CHECK(autocast(x).to_vector<float>() == wanted);
  });
}

TEST_CASE("what it refuses") {
  const auto comm = make_self();
  const Tensor x = zeros({4, 2}), two = ones({2}), three = ones({3});
  const Tensor wide = ones({2}, {.dtype = Dtype::float64});
  CHECK_THROWS_AS(sync_batch_norm(zeros({4}), *comm), ShapeError);
  CHECK_THROWS_AS(sync_batch_norm(zeros({4, 2}, {.dtype = Dtype::int32}), *comm), DtypeError);
  CHECK_THROWS_AS(sync_batch_norm(x, *comm, &three), ShapeError);
  CHECK_THROWS_AS(sync_batch_norm(x, *comm, &two, &three), ShapeError);
  CHECK_THROWS_AS(sync_batch_norm(x, *comm, &wide), DtypeError);
  CHECK_THROWS_AS(sync_batch_norm(x, *comm, &two, &two, -1), ValueError);
}

}  // namespace
}  // namespace capstan::distributed
