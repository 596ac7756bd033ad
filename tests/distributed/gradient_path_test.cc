// What GradientPath promises of every strategy, on Ddp, its plainest.
#include "distributed/gradient_path.h"

#include <doctest/doctest.h>

#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

TEST_CASE("a pass from the gradient of an output is that from a loss") {
  run_ranks(3, [](Communicator& comm) {
    manual_seed(3);
    Net model, other = model.clone();
    Ddp ddp(model, comm), other_ddp(other, comm);
    GradientPath &path = ddp, &other_path = other_ddp;
    const double weight = comm.rank() + 1;
    const Tensor x = full({2, 7}, 0.1 * weight);
    path.backward(sum(model(x)), weight);
    const Tensor out = other(x);
    other_path.pass([&] { capstan::backward(out, {.seed = full(out.shape(), weight)}); },
                    {.weight = weight, .loss = weight * sum(out).item<double>()}, Sync::yes);
    CHECK(other_path.weight() == 6);
    CHECK(other_path.loss() == doctest::Approx(path.loss()));
    REQUIRE(path.parameters().size() == model.parameters().size());
    for (size_t i = 0; i < path.parameters().size(); ++i) {
      CHECK(path.parameters()[i].first == model.parameters()[i].first);
      CHECK(path.parameters()[i].second.grad().to_vector<float>() ==
            other_path.parameters()[i].second.grad().to_vector<float>());
    }
  });
}

TEST_CASE("a reducing pass without a walk over the tape is refused") {
  auto comm = make_self();
  Net model;
  Ddp ddp(model, *comm);
  CHECK_THROWS_WITH_AS(ddp.pass([] {}, {.weight = 1}, Sync::yes),
                       "[pass] what was run made no backward pass", GradientError);
  ddp.backward(mean(model(ones({1, 7}))));  // and the next one works
  CHECK(ddp.weight() == 1);
}

TEST_CASE("clipping is that of the gradients of all ranks") {
  run_ranks(2, [](Communicator& comm) {
    Net model;
    Ddp ddp(model, comm);
    ddp.backward(sum(model(full({1, 7}, comm.rank() + 1))));
    const double norm = ddp.clip_grad_norm(1e-3);
    CHECK(norm > 1e-3);
    CHECK(ddp.clip_grad_norm(1) == doctest::Approx(1e-3).epsilon(1e-3));
  });
}

}  // namespace
}  // namespace capstan::distributed
