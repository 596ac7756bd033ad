// Chains of layers: run as a whole and in parts, and looked at on meta.
#include "nn/chain.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/sequential.h"

using namespace capstan;

namespace {

struct Net : nn::Module {
  nn::Linear in{3, 5}, out{5, 2};
  CAPSTAN_MODULE(Net, in, out)
  nn::Layers layers() {
    return {{"in", [this](const Tensor& x) { return relu(in(x)); }, {&in}},
            {"out", [this](const Tensor& x) { return out(x); }, {&out}}};
  }
  Tensor forward(const Tensor& x) { return nn::forward(layers(), x); }
};

}  // namespace

TEST_CASE("a chain's parts make the whole") {
  Net net;
  const nn::Chain chain(net);
  CHECK(&chain.model() == &net);
  REQUIRE(chain.layers().size() == 2);
  CHECK(chain.layers()[1].name == "out");
  CHECK(chain.layers()[1].modules == std::vector<nn::Module*>{&net.out});
  const Tensor x = randn({4, 3});
  const nn::Tensors middle = chain.layers()[0].forward({x});
  CHECK(chain.layers()[1].forward(middle)[0].to_vector<float>() == net(x).to_vector<float>());
}

TEST_CASE("a sequential is a chain of its layers") {
  nn::Sequential net{nn::Linear(3, 5), nn::Linear(5, 2)};
  const nn::Layers layers = net.layers();
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "0");
  CHECK(layers[1].modules == std::vector<nn::Module*>{&net[1]});
  const Tensor x = randn({4, 3});
  CHECK(nn::forward(layers, x).to_vector<float>() == net(x).to_vector<float>());
}

TEST_CASE("on meta it is a copy without numbers") {
  Net net;
  const std::vector<float> before = net.in.weight.to_vector<float>();
  const int64_t bytes = memory_stats({}).current;
  const nn::Chain twin = nn::Chain(net).on_meta();
  CHECK(memory_stats({}).current == bytes);
  const Tensor y = nn::forward(twin.layers(), empty({7, 3}, {.device = Device::meta()}));
  CHECK(y.shape() == Shape{7, 2});
  CHECK(y.requires_grad());
  CHECK(net.in.weight.to_vector<float>() == before);
  // A twin of what is on meta already.
  const nn::Chain again = twin.on_meta();
  CHECK(nn::forward(again.layers(), empty({1, 3}, {.device = Device::meta()})).shape() ==
        Shape{1, 2});
}

TEST_CASE("layers may hand on several tensors; a wrong number is refused") {
  const auto split = [](const nn::Tensors& x) { return nn::Tensors{x[0] + 1, x[0] * 2}; };
  const auto join = [](const nn::Tensors& x) { return nn::Tensors{x[0] + x[1]}; };
  const auto one = [](const Tensor& x) { return x; };
  const nn::Layers good{{"split", split, {}}, {"join", join, {}}, {"one", one, {}}};
  CHECK(nn::forward(good, ones({2})).to_vector<float>() == std::vector<float>{4, 4});
  CHECK_THROWS_AS(nn::forward({{"split", split, {}}, {"one", one, {}}}, ones({2})), ValueError);
  CHECK_THROWS_AS(nn::forward({{"split", split, {}}}, ones({2})), ValueError);
}
