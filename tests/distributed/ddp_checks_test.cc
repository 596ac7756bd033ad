// What a Ddp looks for on request: gradients that are not finite, replicas that have drifted.
#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "core/error.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/power_sgd.h"
#include "distributed/replica_check.h"
#include "optim/sgd.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

/// Runs f on each rank and returns the message of the E that all must throw, the same.
template <class E, class F>
std::string message_of_all(int ranks, const F& f) {
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(ranks, [&](Communicator& comm) {
    std::string text = "nothing was thrown";
    try {
      f(comm);
    } catch (const E& error) {
      text = error.what();
    }
    const std::lock_guard lock(mutex);
    texts.push_back(text);
  });
  for (const std::string& text : texts) CHECK(text == texts[0]);
  return texts[0];
}

/// The loss of a Bare in which parameter `index` gets the gradient `value`, the others 1.
Tensor loss_with(Bare& model, int index, double value) {
  return model() + sum(model.parts[index]) * (value - 1);
}

TEST_CASE("a gradient that is not finite is named, with its rank, and can be given up") {
  for (int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const int bad = ranks - 1;
    const std::string text = message_of_all<GradientError>(ranks, [&](Communicator& comm) {
      Bare model(3, 4);
      Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0, .check_nan = true});
      optim::Sgd sgd(model.parameters());
      ddp.backward(model());  // all is well
      model.zero_grad();
      const double value = comm.rank() == bad ? std::nan("") : 1;
      std::string caught;
      try {
        ddp.backward(loss_with(model, 1, value));
      } catch (const GradientError& error) {
        caught = error.what();
      }
      // The others' gradients have not been spoilt, but neither may anyone step.
      CHECK(std::isfinite(model.parts[1].grad().to_vector<float>()[0]));
      CHECK_THROWS_AS(sgd.step(0.1), GradientError);
      CHECK_THROWS_AS(ddp.backward(model()), GradientError);
      model.zero_grad();
      ddp.backward(model());
      CHECK(model.parts[1].grad().to_vector<float>() == std::vector<float>(4, 1));
      throw GradientError(caught);
    });
    CHECK(text == "[backward] gradients are not finite, rank " + std::to_string(bad) +
                      ": 'parts.1' (NaN); call zero_grad() to go on");
  }
}

TEST_CASE("several are counted, infinities told apart, and a hook keeps none of it") {
  const std::string text = message_of_all<GradientError>(3, [](Communicator& comm) {
    Bare model(4, 3);
    Ddp ddp(model, comm, {.hook = power_sgd(), .check_nan = true});
    Tensor loss = model();
    if (comm.rank() == 0) loss = loss_with(model, 2, HUGE_VAL);
    if (comm.rank() == 2) loss = model() * std::nan("");
    ddp.backward(loss);
  });
  CHECK(text ==
        "[backward] gradients are not finite, rank 0: 'parts.2' (infinite), rank 2: 'parts.3' "
        "(NaN) and 3 more; call zero_grad() to go on");
}

TEST_CASE("virtual shards are looked through as well") {
  const auto alone = make_self();
  Bare model(2, 3);
  Ddp ddp(model, *alone, {.virtual_shards = 2, .check_nan = true});
  ddp.backward(loss_with(model, 0, std::nan("")), Sync::no);
  CHECK_THROWS_WITH_AS(ddp.backward(model()), doctest::Contains("rank 0: 'parts.0' (NaN)"),
                       GradientError);
}

TEST_CASE("gradients that stay each rank's own are looked through as well") {
  const std::string text = message_of_all<GradientError>(3, [](Communicator& comm) {
    Bare model(2, 3);
    Ddp ddp(model, comm, {.exclude = {"parts.1"}, .check_nan = true});
    ddp.backward(loss_with(model, 1, comm.rank() == 1 ? std::nan("") : 1));
  });
  CHECK(text ==
        "[backward] gradients are not finite, rank 1: 'parts.1' (NaN); call zero_grad() to go "
        "on");
}

TEST_CASE("the first tensor that differs is named, and which ranks have what") {
  const std::string text = message_of_all<SharedError>(5, [](Communicator& comm) {
    const Tensor a = ones({3}), b = full({2}, comm.rank() == 3 ? 2 : 1), c = full({}, comm.rank());
    const Tensor strided = view_of(full({2, 2}, comm.rank() % 2), {{2}, {2}, 0});
    check_replicas({{"a", a}, {"none", empty({0})}}, comm);
    check_replicas({{"a", a}, {"b", b}, {"c", c}, {"d", strided}}, comm);
  });
  CHECK(text.find("[check_replicas] the ranks differ in 3 of 4 tensors, the first is 'b': ranks 0, "
                  "1, 2, 4 have ") == 0);
  CHECK(text.find(", rank 3 has ") != std::string::npos);
  CHECK_NOTHROW(check_replicas({{"a", ones({3})}}, *make_self()));
}

TEST_CASE("a Ddp compares in every so many windows, and when asked") {
  const std::string text = message_of_all<SharedError>(3, [](Communicator& comm) {
    Net model;
    Ddp ddp(model, comm, {.check_replicas = 2});
    const auto window = [&] {
      model.zero_grad();
      ddp.backward(mean(model(ones({1, 7}))));
    };
    window();
    window();
    CHECK_NOTHROW(ddp.check_replicas());
    if (comm.rank() == 1) model.out.bias->mutable_data<float>()[4] += 1e-7f;
    CHECK_NOTHROW(window());
    window();
  });
  CHECK(text.find("the ranks differ in 1 of 4 tensors, the first is 'out.bias': ranks 0, 2 have") !=
        std::string::npos);
  const auto alone = make_self();
  Net model;
  CHECK_THROWS_AS(Ddp(model, *alone, {.check_replicas = -1}), ValueError);
}

}  // namespace
}  // namespace capstan::distributed
