// Every way of misusing a Ddp, and what it says to it.
#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "optim/sgd.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

TEST_CASE("gradients that were not reduced cannot be stepped on") {
  auto comm = make_self();
  Net model;
  Ddp ddp(model, *comm);
  optim::Sgd sgd(model.parameters());
  const std::vector<float> before = all_weights(model);
  const auto loss = [&] { return mean(model(ones({1, 7}))); };

  ddp.backward(loss(), Sync::no);
  CHECK_THROWS_WITH_AS(sgd.step(0.1), doctest::Contains("'in.weight' is this rank's share only"),
                       GradientError);
  CHECK(all_weights(model) == before);
  ddp.backward(loss());
  CHECK_NOTHROW(sgd.step(0.1));

  SUBCASE("a second window needs zero_grad()") {
    CHECK_THROWS_WITH_AS(ddp.backward(loss()), doctest::Contains("call zero_grad() after step()"),
                         GradientError);
    sgd.zero_grad();
    CHECK_NOTHROW(ddp.backward(loss()));
  }
  SUBCASE("a backward past the Ddp is noticed by step() and by the Ddp") {
    sgd.zero_grad();
    backward(loss());
    CHECK_THROWS_AS(sgd.step(0.1), GradientError);
    CHECK_THROWS_WITH_AS(ddp.backward(loss()), doctest::Contains("this strategy did not run"),
                         GradientError);
    sgd.zero_grad();
    CHECK_NOTHROW(ddp.backward(loss()));
  }
  SUBCASE("zero_grad() in the middle of a window starts it anew") {
    sgd.zero_grad();
    ddp.backward(loss(), 5, Sync::no);
    sgd.zero_grad();
    ddp.backward(loss(), 2);
    CHECK(ddp.weight() == 2);
  }
}

TEST_CASE("a parameter that the loss does not use is named, or filled with zeros") {
  auto comm = make_self();
  Net model;
  const auto partial = [&] { return mean(model.in(ones({1, 7}))); };
  {
    Ddp ddp(model, *comm);
    CHECK_THROWS_WITH_AS(ddp.backward(partial()),
                         doctest::Contains("does not depend on: out.weight out.bias"),
                         GradientError);
    model.zero_grad();
    // Used earlier in the window is used.
    ddp.backward(mean(model(ones({1, 7}))), Sync::no);
    CHECK_NOTHROW(ddp.backward(partial()));
    model.zero_grad();
  }
  Ddp ddp(model, *comm, {.unused = Unused::zero_fill});
  ddp.backward(partial());
  CHECK(model.out.bias->grad().to_vector<float>() == std::vector<float>(5, 0));
}

TEST_CASE("a parameter frozen after the Ddp attached is an error, and the Ddp can go") {
  auto comm = make_self();
  Net model;
  Ddp ddp(model, *comm);
  require_grad(model.in.weight, false);
  CHECK_THROWS_WITH_AS(ddp.backward(mean(model(ones({1, 7})))), doctest::Contains("off the tape"),
                       GradientError);
}

TEST_CASE("a model with nothing to train is refused") {
  auto comm = make_self();
  Bare model(1, 3);
  require_grad(model.parts[0], false);
  CHECK_THROWS_WITH_AS(Ddp(model, *comm), doctest::Contains("the model has none that requires one"),
                       ValueError);
  require_grad(model.parts[0]);
  CHECK_THROWS_WITH_AS(Ddp(model, *comm, {.exclude = {"*"}}), doctest::Contains("all are excluded"),
                       ValueError);
}

TEST_CASE("a reduction that a parameter was left out of cannot finish") {
  auto comm = make_self();
  Bare model(3, 4);
  Reducer reducer(model.parameters(), *comm, {.limits = {0}});  // a bucket each, the last first
  reducer.start({.weight = 1, .loss = 1});
  reducer.mark_ready(2);
  reducer.mark_ready(0);
  CHECK_THROWS_WITH_AS(reducer.finish(),
                       "[reducer] 1 of 3 buckets left: a parameter was not marked ready",
                       GradientError);
}

TEST_CASE("weights must be above zero") {
  auto comm = make_self();
  Bare model(1, 3);
  Ddp ddp(model, *comm);
  for (double weight : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(ddp.backward(model(), weight),
                         doctest::Contains("must be a number above 0"), ValueError);
  }
}

TEST_CASE("models that differ are refused on every rank with one text") {
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(3, [&](Communicator& comm) {
    Bare model(comm.rank() == 2 ? 3 : 2, 4);
    try {
      Ddp ddp(model, comm);
      FAIL("rank accepted the model");
    } catch (const CommError& error) {
      std::lock_guard lock(mutex);
      texts.push_back(error.what());
    }
  });
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] == texts[2]);
  CHECK(texts[0].find("parameters") != std::string::npos);
}

}  // namespace
}  // namespace capstan::distributed
