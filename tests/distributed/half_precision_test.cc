// Half precision between ranks: gradients that travel so, and models that have them so.
#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "distributed/cast_hook.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/power_sgd.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

using Floats = std::vector<float>;

TEST_CASE("gradients that travel in half precision are right to its digits, and equal on all") {
  for (int ranks : {1, 2, 3, 4, 5}) {
    for (const auto& [dtype, digit] :
         {std::pair(Dtype::bfloat16, 0x1p-8), {Dtype::float16, 0x1p-11}}) {
      CAPTURE(ranks);
      CAPTURE(to_string(dtype));
      run_ranks(ranks, [&, dtype = dtype, digit = digit](Communicator& comm) {
        manual_seed(3);
        Net model;
        Net exact = model.clone();
        Ddp ddp(model, comm, {.bucket_bytes = 200, .hook = sum_in(dtype)});
        Ddp exact_ddp(exact, comm);
        for (int window = 0; window < 2; ++window) {
          Generator generator(comm.rank() + 1);
          const Tensor x = randn({comm.rank() + 300, 7}, 0, 1, {}, generator);
          model.zero_grad();
          exact.zero_grad();
          ddp.backward(mean(square(model(x))), comm.rank() + 300);
          exact_ddp.backward(mean(square(exact(x))), comm.rank() + 300);
          CHECK(ddp.weight() == exact_ddp.weight());  // not rounded to 8 bits
          CHECK(ddp.loss() == doctest::Approx(exact_ddp.loss()).epsilon(1e-6));
          for (size_t i = 0; i < model.parameters().size(); ++i) {
            const Floats got = model.parameters()[i].second.grad().to_vector<float>();
            const Floats wanted = exact.parameters()[i].second.grad().to_vector<float>();
            float largest = 0;
            for (float g : wanted) largest = std::max(largest, std::abs(g));
            for (size_t k = 0; k < got.size(); ++k) {
              CHECK(std::abs(got[k] - wanted[k]) <= ranks * digit * 2 * largest);
            }
          }
        }
        CHECK_NOTHROW(ddp.check_replicas());
        Floats all;
        for (const auto& [_, p] : model.parameters()) {
          for (float g : p.grad().to_vector<float>()) all.push_back(g);
        }
        CHECK_NOTHROW(
            comm.agree("gradients", {reinterpret_cast<const char*>(all.data()), all.size() * 4}));
      });
    }
  }
}

TEST_CASE("half the bytes") {
  const auto bytes = [](std::shared_ptr<BucketHook> (*hook)()) {
    int64_t sent = 0;
    const auto run = [&](Communicator& comm) {
      Bare model(1, 1 << 14);
      Ddp ddp(model, comm, {.hook = hook()});
      ddp.backward(model());
      model.zero_grad();
      const int64_t before = comm.traffic().bytes_sent;
      ddp.backward(model());
      if (comm.rank() == 0) sent = comm.traffic().bytes_sent - before;
    };
    run_ranks(2, run, {.all_reduce = Algorithm::ring, .share_memory = false});
    return sent;
  };
  CHECK(bytes([] { return std::shared_ptr<BucketHook>(); }) == (4 << 14) + 64);
  CHECK(bytes([] { return sum_in(Dtype::bfloat16); }) == (2 << 14) + 64);
}

TEST_CASE("models in half precision: samples are counted exactly, sums do not overflow") {
  for (int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
        Bare model(2, 5, dtype);
        Ddp ddp(model, comm);
        ddp.backward(model(), 301);  // bfloat16 would make it 300
        CHECK(ddp.weight() == 301 * ranks);
        for (float g : model.parts[1].grad().to_vector<float>()) {
          CHECK(g == doctest::Approx(1).epsilon(0.02));
        }
      }
      Bare model(1, 3, Dtype::float16);
      Ddp ddp(model, comm);
      ddp.backward(model() * 32768.0);  // two of them are above float16's largest number
      CHECK(model.parts[0].grad().to_vector<float>()[2] == doctest::Approx(32768).epsilon(1e-2));
    });
  }
}

TEST_CASE("sums in float32 keep what half precision drops") {
  const auto gradient = [](std::shared_ptr<BucketHook> hook, Communicator& comm) {
    Bare model(1, 3, Dtype::bfloat16);
    Ddp ddp(model, comm, {.hook = std::move(hook)});
    ddp.backward(model() * (comm.rank() == 0 ? 1.0 : 0x1p-9));
    return model.parts[0].grad().to_vector<float>()[0];
  };
  run_ranks(4, [&](Communicator& comm) {
    // (1 + 3 / 512) / 4; the nearest bfloat16 is (1 + 4 / 512) / 4. One after the other, 1 / 512
    // is too little to be added to 1.
    CHECK(gradient(sum_in(Dtype::float32), comm) == (1 + 0x1p-7f) / 4);
    CHECK(gradient(nullptr, comm) == 0.25f);
  });
}

TEST_CASE("the checks read half precision, too") {
  const auto alone = make_self();
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    Bare model(2, 3, dtype);
    Ddp ddp(model, *alone, {.check_nan = true, .check_replicas = 1});
    ddp.backward(model());
    model.zero_grad();
    CHECK_THROWS_WITH_AS(ddp.backward(model() * std::nan("")),
                         doctest::Contains("'parts.1' (NaN) and 1 more"), GradientError);
  }
}

TEST_CASE("PowerSGD is for float32 and float64") {
  const auto alone = make_self();
  Bare model(1, 3, Dtype::bfloat16);
  CHECK_THROWS_WITH_AS(Ddp(model, *alone, {.hook = power_sgd()}), doctest::Contains("power_sgd"),
                       DtypeError);
}

}  // namespace
}  // namespace capstan::distributed
