// Tests of Sequential: it is a module like any other, made of layers of any type.
#include "nn/sequential.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "core/error.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace capstan::nn {
namespace {

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.parameters()) names.push_back(name);
  return names;
}

TEST_CASE("layers run in order, under their numbers") {
  Linear first(3, 4), last(4, 2);
  Sequential net{first, ReLU{}, Sequential{Dropout(0.5), last}};
  CHECK(net.size() == 3);
  CHECK(names_of(net) == std::vector<std::string>{"0.weight", "0.bias", "2.1.weight", "2.1.bias"});
  CHECK(std::string(net[1].type_name()) == "ReLU");
  CHECK_THROWS_WITH_AS(net[3], "[sequential] layer 3 is out of range: there are 3", ValueError);

  net.eval();
  const Tensor x = rand({5, 3});
  CHECK(net(x).to_vector<float>() == last(relu(first(x))).to_vector<float>());
  net.add(Sigmoid{});
  net.add(Tanh{});
  CHECK(net(x).to_vector<float>() ==
        capstan::tanh(sigmoid(last(relu(first(x))))).to_vector<float>());
}

TEST_CASE("a chain of nothing is the identity") {
  Sequential net;
  const Tensor x = rand({2});
  CHECK(net(x).same(x));
}

TEST_CASE("a copy shares parameters, a clone does not") {
  Sequential net{Linear(3, 3), ReLU{}, Linear(3, 3)};
  Sequential copy = net, clone = net.clone(), assigned;
  assigned = net;
  for (size_t i = 0; i < 4; ++i) {
    const Tensor own = net.parameters()[i].second;
    CHECK(copy.parameters()[i].second.same(own));
    CHECK(assigned.parameters()[i].second.same(own));
    CHECK_FALSE(clone.parameters()[i].second.same(own));
    CHECK(clone.parameters()[i].second.to_vector<float>() == own.to_vector<float>());
  }
  copy.add(ReLU{});
  CHECK(net.size() == 3);
  copy.eval();  // the mode is the module's own
  CHECK(net[0].training());
  net = net;  // NOLINT: must be harmless
  CHECK(net.size() == 3);
}

TEST_CASE("modes and hooks reach the layers") {
  Sequential net{Dropout(0.5), Dropout(0.5)};
  net.eval();
  CHECK_FALSE(net[1].training());
  int calls = 0;
  const HookHandle on_layer = net[0].before_forward.add([&](Module&) { ++calls; });
  const HookHandle on_net = net.after_forward.add([&](Module&, auto) { ++calls; });
  net(ones({2}));
  CHECK(calls == 2);
}

}  // namespace
}  // namespace capstan::nn
