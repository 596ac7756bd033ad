// Ddp's order of gradients across a resume. A ring's sum of three ranks depends, in its last bit,
// on where in a bucket an element lies; so a resumed run must know the order before its first
// window.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/linear.h"

namespace capstan::distributed {
namespace {

/// Uses its layers in the other order than it lists them, so that its gradients come in that order.
struct Crossed : nn::Module {
  nn::Linear second{11, 11}, first{11, 11};
  CAPSTAN_MODULE(Crossed, second, first)
  Tensor forward(const Tensor& x) { return mean(square(second(first(x)))); }
};

/// The gradients after one more window, of data that each rank has for itself.
std::vector<float> window(Crossed& model, Ddp& ddp, int rank) {
  for (const auto& [_, parameter] : model.parameters()) zero_grad(parameter);
  Generator generator(rank + 1);
  ddp.backward(model(randn({5, 11}, 0, 1, {}, generator)), 5);
  std::vector<float> all;
  for (const auto& [_, parameter] : model.parameters()) {
    for (float g : parameter.grad().to_vector<float>()) all.push_back(g);
  }
  return all;
}

TEST_CASE("a Ddp that is given the order sums as the one that found it out") {
  const auto check = [](Communicator& communicator) {
    manual_seed(1);
    Crossed model;
    std::vector<float> learned, resumed, unaware;
    std::vector<int> order;
    {
      Ddp ddp(model, communicator);
      CHECK(ddp.order().empty());
      unaware = window(model, ddp, communicator.rank());
      order = ddp.order();
      learned = window(model, ddp, communicator.rank());
    }
    CHECK(order == std::vector<int>{1, 0, 3, 2});
    {
      Ddp ddp(model, communicator, {.order = order});
      CHECK(ddp.order() == order);
      resumed = window(model, ddp, communicator.rank());
    }
    CHECK(resumed == learned);
    // The order matters to a ring only.
    const bool differs = unaware != learned;
    CHECK(differs == (communicator.options().all_reduce == Algorithm::ring));
  };
  run_ranks(3, check);
  run_ranks(3, check, {.all_reduce = Algorithm::ring});
}

TEST_CASE("an order that is not one of the model's parameters is refused") {
  const auto alone = make_self();
  Crossed model;
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {0, 1, 2, 2}, {1, 2, 3, 4}}) {
    CHECK_THROWS_AS(Ddp(model, *alone, {.order = order}), ValueError);
  }
}

}  // namespace
}  // namespace capstan::distributed
