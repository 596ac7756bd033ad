// What Ddp can be asked for, across processes: hooks, checks, buffers and SyncBatchNorm.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/cast_hook.h"
#include "distributed/comm/mpi.h"
#include "distributed/ddp.h"
#include "distributed/power_sgd.h"
#include "distributed/sync_batch_norm.h"
#include "nn/batch_norm.h"
#include "nn/linear.h"
#include "optim/sgd.h"

namespace capstan::distributed {
namespace {

struct Net : nn::Module {
  nn::Linear in{40, 33};
  nn::BatchNorm1d norm{33};
  nn::Linear out{33, 4};
  CAPSTAN_MODULE(Net, in, norm, out)
  Tensor forward(const Tensor& x) { return mean(square(out(relu(norm(in(x)))) - 1.0)); }
};

/// Trains on `samples` with SyncBatchNorm and a hook; returns the losses. Rank r has r + 2 rows.
std::vector<double> train(Communicator& comm, std::shared_ptr<BucketHook> hook) {
  manual_seed(comm.rank());
  Net model;
  sync_batch_norm(model, comm);
  Ddp ddp(model, comm,
          {.first_bucket_bytes = 512,
           .bucket_bytes = 4096,
           .hook = hook,
           .check_nan = true,
           .check_replicas = 1});
  optim::Sgd sgd(model.parameters());
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    Generator generator(100 * step + comm.rank());
    const int64_t rows = comm.rank() + 2;
    ddp.backward(model(randn({rows, 40}, 0, 1, {}, generator)), static_cast<double>(rows));
    losses.push_back(ddp.loss());
    sgd.step(0.05);
    sgd.zero_grad();
  }
  return losses;
}

/// The same on one rank that has all rows.
std::vector<double> train_alone(int ranks) {
  manual_seed(0);
  Net model;
  optim::Sgd sgd(model.parameters());
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    std::vector<Tensor> parts;
    for (int r = 0; r < ranks; ++r) {
      Generator generator(100 * step + r);
      parts.push_back(randn({r + 2, 40}, 0, 1, {}, generator));
    }
    const Tensor loss = model(cat(parts));
    backward(loss);
    losses.push_back(loss.item<double>());
    sgd.step(0.05);
    sgd.zero_grad();
  }
  return losses;
}

TEST_CASE("hooks, checks and SyncBatchNorm train like one process with the whole batch") {
  for (bool share : {true, false}) {
    const auto comm = make_mpi({.share_memory = share});
    const std::vector<double> wanted = train_alone(comm->size());
    const auto check = [&](std::shared_ptr<BucketHook> hook, double tolerance) {
      const std::vector<double> got = train(*comm, std::move(hook));
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < tolerance);
    };
    check(nullptr, 2e-5);
    check(sum_in(Dtype::float64), 2e-5);
    check(power_sgd({.rank = 4}), 0.2);
  }
}

TEST_CASE("a process whose weights drift, or whose gradient is NaN, is named by all") {
  const auto comm = make_mpi();
  Net model;
  Ddp ddp(model, *comm, {.check_nan = true});
  const int last = comm->size() - 1;
  const std::string name = "rank " + std::to_string(last) + ": 'out.bias' (NaN)";
  const Tensor bad = comm->rank() == last ? sum(*model.out.bias) * std::nan("") : scalar(0);
  CHECK_THROWS_WITH_AS(ddp.backward(model(ones({3, 40})) + bad), doctest::Contains(name.c_str()),
                       GradientError);
  CHECK_NOTHROW(ddp.check_replicas());
  if (comm->size() == 1) return;
  if (comm->rank() == last) fill_elements(*model.in.bias, 7);
  CHECK_THROWS_WITH_AS(ddp.check_replicas(), doctest::Contains("'in.bias': rank"), SharedError);
}

}  // namespace
}  // namespace capstan::distributed
