// Units: what each policy chooses, who gets shared parameters, and what does not fit a model.
#include "distributed/fsdp/units.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

/// The names of the units, with the names of their parameters.
std::string units_of(nn::Module& model, const UnitPolicy& policy) {
  std::string text;
  for (const UnitPlan& unit : plan_units(model, policy)) {
    text += "(" + unit.name + ":";
    for (const auto& [name, _] : unit.parameters) text += " " + name;
    text += ")";
  }
  return text;
}

TEST_CASE("policies") {
  Tower model;
  const std::string root = "(: in.weight in.bias out.weight out.bias)";
  std::string blocks;
  for (const char* b : {"0", "1", "2"}) {
    const std::string name = std::string("blocks.") + b;
    blocks += "(" + name + ": " + name + ".up.weight " + name + ".up.bias " + name +
              ".down.weight " + name + ".down.bias)";
  }
  CHECK(units_of(model, repeated_units()) == root + blocks);
  CHECK(units_of(model, units_of_type({"Block"})) == root + blocks);
  CHECK(units_of(model, units_named({"blocks.*"})) == root + blocks);
  CHECK(units_of(model, units_of_size(200)) == root + blocks);  // a Linear has at most 170
  CHECK(units_of(model, units_named({"in", "blocks.1.up"})) ==
        "(: blocks.0.up.weight blocks.0.up.bias blocks.0.down.weight blocks.0.down.bias "
        "blocks.1.down.weight blocks.1.down.bias blocks.2.up.weight blocks.2.up.bias "
        "blocks.2.down.weight blocks.2.down.bias out.weight out.bias)"
        "(in: in.weight in.bias)(blocks.1.up: blocks.1.up.weight blocks.1.up.bias)");
  CHECK(plan_units(model, units_of_size(1)).size() == 8);     // every layer; nothing for the root
  CHECK(plan_units(model, units_of_size(1000)).size() == 1);  // the root alone
  CHECK(to_string(plan_units(model, units_of_type({"Block"})))
            .starts_with("root Tower: 4 parameters, 122 elements\nblocks.0 Block: 4 parameters, "
                         "332 elements\n"));
}

struct Pair : nn::Module {
  nn::ModuleList<nn::Linear> layers;
  nn::Linear head{4, 4};
  CAPSTAN_MODULE(Pair, layers, head)
  Pair() {
    for (int i = 0; i < 3; ++i) layers.emplace_back(4, 4);
  }
  Tensor forward(const Tensor& x) { return head(layers[0](x)); }
};

struct Outer : nn::Module {
  Pair left, right;
  CAPSTAN_MODULE(Outer, left, right)
  Tensor forward(const Tensor& x) { return right(left(x)); }
};

TEST_CASE("a shared parameter goes to the unit around all that share it") {
  Pair model;
  nn::tie(model.layers[0].weight, model.head.weight);
  CHECK(units_of(model, repeated_units()) ==
        "(: layers.0.weight head.bias)(layers.0: layers.0.bias)"
        "(layers.1: layers.1.weight layers.1.bias)(layers.2: layers.2.weight layers.2.bias)");

  Outer outer;
  nn::tie(*outer.left.layers[1].bias, *outer.left.layers[2].bias);
  const std::string units = units_of(outer, units_of_type({"Pair", "Linear"}));
  CHECK(units.starts_with("(left: left.layers.1.bias)"));
  CHECK(units.find("(left.layers.2: left.layers.2.weight)") != std::string::npos);
}

TEST_CASE("what does not fit the model") {
  Tower model;
  CHECK_THROWS_WITH_AS(
      plan_units(model, units_of_type({"Block", "GptBlock"})),
      "[units] the model has no module of type 'GptBlock', but of: Block, Linear, Tower",
      ValueError);
  CHECK_THROWS_WITH_AS(plan_units(model, units_named({"in", "layer.*"})),
                       "[units] no module's name fits 'layer.*'", ValueError);
  CHECK_THROWS_WITH_AS(plan_units(model, units_of_size(0)),
                       "[units] units have 1 element or more, got 0", ValueError);
}

}  // namespace
}  // namespace capstan::distributed::testing
