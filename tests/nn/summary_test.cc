// Tests of summary(): what the table shows, and that the model stays as it was.
#include "nn/summary.h"

#include <doctest/doctest.h>

#include "autograd/arithmetic.h"
#include "core/error.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/sequential.h"

namespace capstan::nn {
namespace {

struct Twins : Module {
  Sequential trunk{Linear(3, 4), ReLU{}};
  ModuleDict<Linear> heads{{"left", Linear(4, 4)}, {"right", Linear(4, 4)}};
  CAPSTAN_MODULE(Twins, trunk, heads)
  Tensor forward(const Tensor& x) {
    const Tensor y = trunk(x);
    return heads.at("left")(y) + heads.at("right")(y);
  }
};

TEST_CASE("a summary lists modules, shapes, operations and parameters, tied ones once") {
  Twins twins;
  tie(twins.heads.at("left").weight, twins.heads.at("right").weight);
  CHECK(summary(twins, {5, 3}) ==
        "module     type        output  parameters  FLOPs\n"
        "(model)    Twins       [5, 4]                540\n"  // 140 + 20 + 2 * 180 + 20
        "  trunk    Sequential  [5, 4]                160\n"
        "    0      Linear      [5, 4]          16    140\n"  // 5 * 4 * (2 * 3 + 1)
        "    1      ReLU        [5, 4]                 20\n"
        "    left   Linear      [5, 4]          20    180\n"
        "    right  Linear      [5, 4]           4    180\n"
        "parameters: 40\n");
}

TEST_CASE("a summary changes nothing, and large numbers have commas") {
  Linear linear(1000, 1200);
  const Tensor weight = linear.weight;
  CHECK(summary(linear, {2, 1000}).find("1,201,200") != std::string::npos);
  CHECK(linear.weight.same(weight));
  CHECK(linear.weight.device() == Device::cpu());
  CHECK(linear.training());
  CHECK(linear.after_forward.empty());
  CHECK_THROWS_AS(summary(linear, {2, 3}), ShapeError);
}

}  // namespace
}  // namespace capstan::nn
