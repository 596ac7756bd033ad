// What would take a shard for a whole parameter refuses shards, in every stage and on any number of
// ranks, so that nobody trains on the wrong norms.
#include <doctest/doctest.h>

#include "core/error.h"
#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lbfgs.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

template <class Optimizer>
void check_refused(const NamedTensors& parameters, const std::string& name) {
  const std::string text = "[" + name + "] 'in.weight' is one rank's part of a parameter, and " +
                           name + " looks at all of it: take one that works element by element";
  CHECK_THROWS_WITH_AS(Optimizer{parameters}, doctest::Contains(text.c_str()), ValueError);
}

TEST_CASE("optimizers that look at whole tensors refuse shards, the others take them") {
  for (int ranks : {1, 2, 3}) {
    for (int stage : {1, 2, 3}) {
      run_ranks(ranks, [&](Communicator& c) {
        Tower model;
        Fsdp fsdp(model, c, {.stage = stage});
        const NamedTensors& shards = fsdp.parameters();
        check_refused<optim::Lamb>(shards, "lamb");
        check_refused<optim::Lars>(shards, "lars");
        check_refused<optim::Adafactor>(shards, "adafactor");
        check_refused<optim::Muon>(shards, "muon");
        check_refused<optim::Lbfgs>(shards, "lbfgs");
        optim::Sgd{shards};
        optim::Adam{shards};
        optim::AdamW{shards};
        optim::Rmsprop{shards};
        optim::Adagrad{shards};
        optim::Adadelta{shards};
        optim::Lion{shards};

        const Samples s = samples(0, c.rank(), 3);
        fsdp.backward(cross_entropy(model(s.x), s.y), 3);
        CHECK_THROWS_WITH_AS(optim::clip_grad_norm(shards, 1),
                             doctest::Contains("ask the strategy"), ValueError);
        CHECK(fsdp.clip_grad_norm(1) > 0);
      });
    }
  }
}

TEST_CASE("parameters that Ddp keeps whole may be stepped by any of them") {
  run_ranks(2, [](Communicator& c) {
    Tower model;
    const Ddp ddp(model, c);
    optim::Lamb{ddp.parameters()};
    optim::Lbfgs{ddp.parameters()};
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
