// What is asked of all gradients together, norms and overflow; and training in half precision.
#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "autograd/reduce.h"
#include "core/error.h"
#include "optim/clip.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("the norm of all gradients counts each element once") {
  run_ranks(4, [](Communicator& c) {
    for (int shard_ranks : {0, 2}) {
      manual_seed(3);
      Tower model, twin = model.clone();
      const Samples s = samples(0, 0, 4);
      backward(cross_entropy(twin(s.x), s.y));
      const double expected = optim::grad_norm(twin.parameters());
      Fsdp fsdp(model, c, {.shard_ranks = shard_ranks});
      fsdp.backward(cross_entropy(model(s.x), s.y), 4);
      CHECK(fsdp.loss() == doctest::Approx(cross_entropy(twin(s.x), s.y).item<double>()));
      CHECK(fsdp.clip_grad_norm(expected / 2) == doctest::Approx(expected).epsilon(1e-6));
      CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(expected / 2).epsilon(1e-5));
      CHECK_THROWS_AS(fsdp.clip_grad_norm(0), ValueError);
      for (const auto& [_, part] : fsdp.parameters()) {
        if (c.rank() % 2 == 1) fill_elements(part.grad(), std::nan(""));
      }
      CHECK_THROWS_WITH_AS(fsdp.clip_grad_norm(1), doctest::Contains("' is not finite"),
                           SharedError);
    }
  });
}

TEST_CASE("one rank's overflow keeps all ranks from stepping") {
  run_ranks(3, [](Communicator& c) {
    Tower model;
    Fsdp fsdp(model, c, {.stage = 2});
    const optim::GradScaler scaler({.start = 4});
    const Samples s = samples(0, c.rank(), 3);
    fsdp.backward(scaler.scale(cross_entropy(model(s.x), s.y)), 3);
    const double norm = fsdp.clip_grad_norm(1e9);
    CHECK(fsdp.unscale(scaler));
    CHECK(fsdp.clip_grad_norm(1e9) == doctest::Approx(norm / 4));
    for (const auto& [_, part] : fsdp.parameters()) {
      if (c.rank() == 1) fill_elements(part.grad(), INFINITY);
    }
    CHECK(!fsdp.unscale(scaler));
  });
}

TEST_CASE("half precision: sums in float32 on request, master weights of the shards") {
  const auto train_half = [](Communicator& c, int stage, std::optional<Dtype> sums) {
    manual_seed(4);
    Tower model;
    model.to(Dtype::bfloat16);
    FsdpOptions options{.reduce_dtype = sums};
    const auto path = strategy(model, c, stage, options);
    optim::AdamW adamw(path->parameters());
    for (int64_t step = 0; step < 30; ++step) {
      const Samples s = samples(0, c.rank(), 4);
      path->backward(cross_entropy(model(cast(s.x, Dtype::bfloat16)), s.y), 4);
      adamw.step(0.01);
      path->after_step();
      adamw.zero_grad();
    }
    return path->loss();
  };
  run_ranks(2, [&](Communicator& c) {
    const double expected = train_half(c, 0, {});
    CHECK(expected < 1);
    for (int stage : {1, 2, 3}) {
      CHECK(train_half(c, stage, {}) == doctest::Approx(expected).epsilon(0.1));
      CHECK(train_half(c, stage, Dtype::float32) == doctest::Approx(expected).epsilon(0.1));
    }
  });
}

/// A layer whose result is scaled by a table, and whose mean is remembered.
struct Scaled : nn::Module {
  nn::Linear in{7, 5};
  nn::Buffer table{full({5}, 1.0 / 3), nn::BufferPolicy::replicated};
  nn::Buffer average{zeros({5}), nn::BufferPolicy::averaged};
  CAPSTAN_MODULE(Scaled, in, table, average)
  Tensor forward(const Tensor& x) {
    const Tensor y = in(x);
    if (grad_enabled()) copy_elements(mean(cast(detach(y), average.dtype()), {0}), average);
    return y * cast(table, y.dtype());
  }
};

TEST_CASE("the three dtypes of mixed precision: parameters, sums, buffers") {
  run_ranks(2, [](Communicator& c) {
    for (int stage : {1, 2, 3}) {
      for (const auto& [wide, table, average] : {std::tuple{false, Dtype::bfloat16, Dtype::float32},
                                                 {true, Dtype::float64, Dtype::float64}}) {
        Scaled model;
        if (wide) {
          model.to(Dtype::bfloat16, Dtype::float64);
        } else {
          model.to(Dtype::bfloat16);
        }
        Fsdp fsdp(model, c, {.stage = stage, .reduce_dtype = Dtype::float32});
        const Samples s = samples(0, c.rank(), 4);
        fsdp.backward(cross_entropy(model(cast(s.x, Dtype::bfloat16)), s.y), 4);
        CHECK(fsdp.parameters()[0].second.dtype() == Dtype::bfloat16);
        CHECK(model.table.dtype() == table);
        CHECK(model.average.dtype() == average);
        const std::vector<double> mine = model.average.to_vector<double>();
        const Tensor first = from_vector(mine, {5});
        c.broadcast(first, 0).wait();
        CHECK(first.to_vector<double>() == mine);  // averaged over the ranks
      }
    }
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
