// Ddp's buckets: how many collectives a step takes, in which order gradients lie in the buckets,
// and what is measured of it.
#include <doctest/doctest.h>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

struct Wide : nn::Module {
  std::vector<nn::Linear> layers;
  CAPSTAN_MODULE(Wide, layers)
  Wide() {
    for (int i = 0; i < 4; ++i) layers.emplace_back(2048, 2048);
  }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = layer(x);
    return mean(x);
  }
};

struct Crossed : nn::Module {
  nn::Linear last{4, 2}, first{3, 4};
  CAPSTAN_MODULE(Crossed, last, first)
  Tensor forward(const Tensor& x) { return mean(last(first(x))); }
};

struct Mixed : nn::Module {
  nn::Parameter a{ones({3})}, b{ones({5}, {.dtype = Dtype::float64})}, c{ones({2})};
  CAPSTAN_MODULE(Mixed, a, b, c)
  Tensor forward() { return cast(sum(a) + sum(c), Dtype::float64) + sum(b); }
};

TEST_CASE("all-reduces a step: one a bucket, and one a window") {
  run_ranks(2, [](Communicator& comm) {
    for (const auto& [limit, expected] :
         {std::pair<int64_t, int64_t>{1 << 20, 1}, {200, 2}, {0, 10}}) {
      Bare model(10, 10);
      Ddp ddp(model, comm, {.first_bucket_bytes = limit, .bucket_bytes = limit});
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        const int64_t before = comm.traffic().collectives;
        ddp.backward(model());
        if (step > 0) CHECK(comm.traffic().collectives - before == expected);
      }
      model.zero_grad();
      const int64_t before = comm.traffic().collectives;
      for (int i = 0; i < 3; ++i) ddp.backward(model(), Sync::no);
      ddp.backward(model());
      CHECK(comm.traffic().collectives - before == expected);
      CHECK(model.parts[3].grad().to_vector<float>() == std::vector<float>(10, 1));
    }
  });
}

TEST_CASE("buckets follow the true order after the first window") {
  auto comm = make_self();
  Wide model;
  Ddp ddp(model, *comm);
  ddp.backward(model(ones({1, 2048})));
  const NamedTensors parameters = model.parameters();
  std::vector<double> sizes;
  for (const auto& bucket : ddp.reducer().plan()) {
    int64_t bytes = 0;
    for (int p : bucket) bytes += parameters[p].second.bytes();
    sizes.push_back(static_cast<double>(bytes) / (1 << 20));
  }
  REQUIRE(sizes.size() == 3);
  CHECK(sizes[0] == doctest::Approx(16.008).epsilon(1e-4));
  CHECK(sizes[1] == doctest::Approx(32.016).epsilon(1e-4));
  CHECK(sizes[2] == doctest::Approx(16.008).epsilon(1e-4));
}

TEST_CASE(
    "the order of use, not of registration, decides the plan, and gradients survive the move") {
  run_ranks(3, [](Communicator& comm) {
    Crossed model;
    Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0});
    CHECK(ddp.reducer().plan()[0] == std::vector<int>{3});
    ddp.backward(model(ones({2, 3})));
    CHECK(ddp.reducer().plan() == BucketPlan{{1}, {0}, {3}, {2}});
    CHECK(model.last.bias->grad().to_vector<float>() == std::vector<float>{0.5, 0.5});
  });
}

TEST_CASE("dtypes get buckets of their own") {
  run_ranks(2, [](Communicator& comm) {
    Mixed model;
    Ddp ddp(model, comm);
    CHECK(ddp.reducer().plan().size() == 2);
    const double factor = comm.rank() + 1;
    ddp.backward(model() * factor);
    CHECK(model.a.grad().to_vector<float>() == std::vector<float>(3, 1.5f));
    CHECK(model.b.grad().to_vector<double>() == std::vector<double>(5, 1.5));
  });
}

TEST_CASE("gradients are slices of the buckets, on cache lines") {
  auto comm = make_self();
  Bare model(3, 5);
  Ddp ddp(model, *comm);
  ddp.backward(model());
  for (const nn::Parameter& p : model.parts) {
    CHECK(reinterpret_cast<uintptr_t>(p.grad().address()) % Allocator::kAlignment == 0);
    CHECK(&p.grad().storage() == &model.parts[0].grad().storage());
  }
  // Three slices of a line each, and a line for weight and loss.
  CHECK(ddp.reducer().bucket_bytes() == std::vector<int64_t>{4 * 64});
}

TEST_CASE("overlap is a share of the time under way") {
  run_ranks(2, [](Communicator& comm) {
    Net model;
    Ddp ddp(model, comm);
    ddp.backward(mean(model(ones({1, 7}))));
    CHECK(ddp.overlap().communication > 0);
    CHECK(ddp.overlap().exposed <= ddp.overlap().communication);
    CHECK(ddp.overlap().hidden() >= 0);
    CHECK(ddp.overlap().hidden() <= 1);
  });
  CHECK(Overlap{}.hidden() == 1);
  CHECK(Overlap{.communication = 4, .exposed = 1}.hidden() == 0.75);
}

}  // namespace
}  // namespace capstan::distributed
