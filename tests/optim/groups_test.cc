// Tests of groups of parameters with their own options.
#include "optim/groups.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/optim/parameters.h"

namespace capstan::optim {
namespace {

using doctest::Approx;
using doctest::Contains;
using testing::give_grad;

struct Model {
  Tensor weight = testing::parameter_of(ones({2, 2})), bias = testing::parameter_of(ones({2})),
         head = testing::parameter_of(ones({2, 2})), header = testing::parameter_of(ones({1, 1}));
  NamedTensors parameters() const {
    return {
        {"body.weight", weight}, {"body.bias", bias}, {"head.weight", head}, {"header", header}};
  }
  double step(Optimizer& optimizer, const Tensor& parameter) const {
    for (const auto& [_, p] : optimizer.parameters()) give_grad(p, 1);
    optimizer.step(0.1);
    return parameter.to_vector<double>()[0];
  }
};

TEST_CASE("no weight decay for biases and norms, and a rate of its own for a module") {
  const Model model;
  Sgd sgd(model.parameters(), {.weight_decay = 0.5},
          {{biases_and_norms, no_weight_decay}, {under("head"), nullptr, 2}});
  model.step(sgd, model.weight);
  CHECK(model.weight.to_vector<double>()[0] == Approx(1 - 0.1 * 1.5));
  CHECK(model.bias.to_vector<double>()[0] == Approx(1 - 0.1));
  CHECK(model.head.to_vector<double>()[0] == Approx(1 - 0.2 * 1.5));
  CHECK(model.header.item<double>() == Approx(1 - 0.1 * 1.5));  // "header" is not under "head"
}

TEST_CASE("a group changes the options of the whole; what it does not mention stays") {
  const Model model;
  AdamW adamw(model.parameters(), {.beta1 = 0.5, .epsilon = 1, .weight_decay = 0.5},
              {{under("body.bias"), no_weight_decay}});
  // At the first step m / bias is the gradient, and so is the root of v / bias: 1 / (1 + epsilon).
  CHECK(model.step(adamw, model.bias) == Approx(1 - 0.1 / 2));
  CHECK(model.weight.to_vector<double>()[0] == Approx(1 - 0.1 * 0.5 - 0.1 / 2));
}

TEST_CASE("the first group that takes a parameter has it") {
  const Model model;
  Sgd sgd(model.parameters(), {},
          {{under("head.weight"), nullptr, 0},
           {[](const std::string&, const Tensor& p) { return p.rank() == 2; }, nullptr, 3}});
  CHECK(model.step(sgd, model.head) == 1);
  CHECK(model.weight.to_vector<double>()[0] == Approx(0.7));
  CHECK(model.bias.to_vector<double>()[0] == Approx(0.9));
}

TEST_CASE("two optimizers share the parameters of a model") {
  const Model model;
  const NamedTensors heads = filter(model.parameters(), under("head")),
                     rest = filter(model.parameters(), std::not_fn(under("head")));
  CHECK(heads.size() == 1);
  CHECK(heads[0].first == "head.weight");
  CHECK(heads[0].second.same(model.head));
  CHECK(rest.size() == 3);
  CHECK(filter({}, biases_and_norms).empty());
}

TEST_CASE("what is kept follows the options of the group, and the state goes by names alone") {
  const Model model;
  Sgd sgd(model.parameters(), {.momentum = 0.9},
          {{under("head"), [](SgdOptions& options) { options.momentum = 0; }}});
  std::vector<std::string> names;
  for (const auto& [name, _] : sgd.state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"body.weight.momentum", "body.weight.steps",
                                          "body.bias.momentum", "body.bias.steps",
                                          "head.weight.steps", "header.momentum", "header.steps"});

  const Model other;
  Sgd without_groups(other.parameters(), {.momentum = 0.9});
  Sgd with_groups(model.parameters(), {.momentum = 0.9}, {{biases_and_norms, nullptr, 0.5}});
  other.step(without_groups, other.weight);
  CHECK_NOTHROW(with_groups.load_state(testing::saved(without_groups.state())));
}

TEST_CASE("groups that make no sense are refused") {
  const Model model;
  const auto check = [&](const Groups<SgdOptions>& groups, const char* text) {
    CHECK_THROWS_WITH_AS(Sgd(model.parameters(), {}, groups), Contains(text), ValueError);
  };
  check({{under("haed"), nullptr, 2}}, "[optimizer] group 0 takes no parameter");
  check({{under("head")}, {under("head.weight")}}, "[optimizer] group 1 takes no parameter");
  check({{nullptr, no_weight_decay}}, "[optimizer] group 0 does not say what it takes");
  check({{under("head"), [](SgdOptions& options) { options.momentum = 2; }}},
        "[sgd] momentum must be in [0, 1), got 2");
  for (const double scale : {-1.0, std::nan(""), HUGE_VAL}) {
    check({{under("head"), nullptr, scale}}, "[optimizer] the rate scale of a group must be");
  }
}

}  // namespace
}  // namespace capstan::optim
