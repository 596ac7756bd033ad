// Tests of Module: names and order, ties, copies and clones, modes, hooks, conversion.
#include <doctest/doctest.h>

#include "autograd/anomaly.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/matmul.h"
#include "autograd/reduce.h"
#include "core/error.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace capstan::nn {
namespace {

using doctest::Contains;
using Names = std::vector<std::string>;

/// One member of every kind.
struct Block : Module {
  explicit Block(bool with_gain = true) {
    if (with_gain) gain.emplace(ones({3}));
    for (int i = 0; i < 2; ++i) more.emplace_back(3, 3, LinearOptions{.bias = i == 0});
    factors.emplace_back(full({}, 2));
  }

  Linear first{3, 3};
  std::optional<Parameter> gain;
  std::vector<Linear> more;
  std::vector<Parameter> factors;
  Buffer count{zeros({1}, {.dtype = Dtype::int64}), BufferPolicy::replicated};
  Buffer average{zeros({3}), BufferPolicy::replicated};
  std::optional<Buffer> scratch;
  Dropout drop{0.5};
  CAPSTAN_MODULE(Block, first, gain, more, factors, count, average, scratch, drop)

  Tensor forward(const Tensor& x) {
    Tensor y = first(x);
    for (Linear& layer : more) y = layer(y);
    return drop(y * factors[0]);
  }
};

struct Pair : Module {
  Block left, right{false};
  CAPSTAN_MODULE(Pair, left, right)
  Tensor forward(const Tensor& x) { return right(left(x)); }
};

/// The logarithm, which makes a NaN of what is below 0.
struct Log : Module {
  CAPSTAN_MODULE(Log)
  Tensor forward(const Tensor& x) { return log(x); }
};

/// Runs a member, and a layer that it has not listed.
struct Logs : Module {
  ModuleList<Log> logs{Log(), Log()};
  CAPSTAN_MODULE(Logs, logs)
  Tensor forward(const Tensor& x) { return Log()(logs[1](x)); }
};

struct OuterLogs : Module {
  Logs inner;
  CAPSTAN_MODULE(OuterLogs, inner)
  Tensor forward(const Tensor& x) { return inner(x); }
};

template <class Named>
Names names_of(const Named& list) {
  Names names;
  for (const auto& entry : list) names.push_back(entry.first);
  return names;
}

Tensor batch() { return rand({2, 3}); }

TEST_CASE("names are those of the list, in its order, at every depth") {
  Pair pair;
  CHECK(std::string(pair.type_name()) == "Pair");
  CHECK(names_of(pair.parameters()) ==
        Names{"left.first.weight", "left.first.bias", "left.gain", "left.more.0.weight",
              "left.more.0.bias", "left.more.1.weight", "left.factors.0", "right.first.weight",
              "right.first.bias", "right.more.0.weight", "right.more.0.bias", "right.more.1.weight",
              "right.factors.0"});
  CHECK(names_of(pair.buffers()) ==
        Names{"left.count", "left.average", "right.count", "right.average"});
  CHECK(names_of(pair.modules()) == Names{"", "left", "left.first", "left.more.0", "left.more.1",
                                          "left.drop", "right", "right.first", "right.more.0",
                                          "right.more.1", "right.drop"});
  CHECK(pair.modules()[1].second == &pair.left);
  CHECK(pair.parameter_count() == (9 + 3 + 3 + 9 + 3 + 9 + 1) + (9 + 3 + 9 + 3 + 9 + 1));
  CHECK(pair.buffers()[1].second.policy == BufferPolicy::replicated);
}

TEST_CASE("parameters are leaves, and the model's own") {
  Block block;
  for (const auto& [name, parameter] : block.parameters()) CHECK(parameter.requires_grad());
  CHECK(block.parameters()[0].second.same(block.first.weight));
  backward(sum(block(batch())));
  CHECK(block.first.weight.has_grad());
  CHECK_FALSE(block.gain->has_grad());
  block.zero_grad();
  CHECK_FALSE(block.first.weight.has_grad());

  const Tensor source = require_grad(ones({2})), result = source * 3;
  CHECK_FALSE(Parameter(result).same(result));  // off the tape of what made it
  backward(sum(Parameter(result)));
  CHECK_FALSE(source.has_grad());
}

TEST_CASE("a frozen parameter stays in the model and gets no gradient") {
  Block block;
  require_grad(block.first.weight, false);
  CHECK(block.parameters().size() == 7);
  backward(sum(block(batch())));
  CHECK_FALSE(block.first.weight.has_grad());
  CHECK(block.first.bias->has_grad());
  CHECK_NOTHROW(block.zero_grad());
  CHECK_FALSE(block.clone().first.weight.requires_grad());
}

TEST_CASE("a tied parameter is one parameter under its first name") {
  Block block;
  tie(block.first.weight, block.more[1].weight);
  CHECK(block.more[1].weight.same(block.first.weight));
  CHECK(names_of(block.parameters()) ==
        Names{"first.weight", "first.bias", "gain", "more.0.weight", "more.0.bias", "factors.0"});
  int deliveries = 0;
  const HookHandle handle =
      on_accumulation(block.first.weight, [&](const Tensor&) { ++deliveries; });
  backward(sum(block(batch())));
  CHECK(deliveries == 1);

  Block clone = block.clone();
  CHECK(clone.more[1].weight.same(clone.first.weight));
  CHECK_FALSE(clone.first.weight.same(block.first.weight));
  block.to(Dtype::float64);
  CHECK(block.more[1].weight.same(block.first.weight));

  Parameter other(ones({2}));
  CHECK_THROWS_WITH_AS(tie(block.first.weight, other), Contains("[tie] parameters must have equal"),
                       ShapeError);
}

TEST_CASE("buffers follow the parameters' dtype, or have their own") {
  Block block;
  block.scratch.emplace(full({1}, 1.0 / 3), BufferPolicy::averaged);
  Block same = block.clone(), apart = block.clone();
  same.to(Dtype::bfloat16);
  CHECK(same.first.weight.dtype() == Dtype::bfloat16);
  CHECK(same.average.dtype() == Dtype::bfloat16);
  CHECK(same.scratch->dtype() == Dtype::float32);
  CHECK(same.count.dtype() == Dtype::int64);

  tie(apart.first.weight, apart.more[1].weight);
  apart.to(Dtype::bfloat16, Dtype::float64);
  CHECK(apart.first.weight.dtype() == Dtype::bfloat16);
  CHECK(apart.first.weight.requires_grad());
  CHECK(apart.more[1].weight.same(apart.first.weight));
  CHECK(apart.average.dtype() == Dtype::float64);
  CHECK(apart.scratch->item<float>() == block.scratch->item<float>());
  CHECK(apart.count.dtype() == Dtype::int64);
  apart.to(Dtype::float32, Dtype::float16);
  CHECK(apart.first.weight.dtype() == Dtype::float32);
  CHECK(apart.scratch->dtype() == Dtype::float16);  // asked for

  CHECK_THROWS_AS(apart.to(Dtype::float64, Dtype::int32), DtypeError);
  CHECK_THROWS_AS(apart.to(Dtype::int32, Dtype::float64), DtypeError);
  CHECK(apart.first.weight.dtype() == Dtype::float32);
}

TEST_CASE("a copy uses the same parameters, a clone its own") {
  Pair pair;
  Pair copy = pair, clone = pair.clone();
  for (size_t i = 0; i < pair.parameters().size(); ++i) {
    const Tensor own = pair.parameters()[i].second, cloned = clone.parameters()[i].second;
    CHECK(copy.parameters()[i].second.same(own));
    CHECK(&cloned.storage() != &own.storage());
    CHECK(cloned.to_vector<float>() == own.to_vector<float>());
    CHECK(cloned.requires_grad());
  }
  CHECK(&clone.left.count.storage() != &pair.left.count.storage());
  CHECK_FALSE(clone.left.count.requires_grad());
  CHECK(clone.left.average.policy == BufferPolicy::replicated);

  fill_elements(pair.left.first.weight, 5);
  CHECK(copy.left.first.weight.to_vector<float>()[0] == 5);
  CHECK(clone.left.first.weight.to_vector<float>()[0] != 5);
  backward(sum(pair(batch())));
  CHECK_FALSE(clone.left.first.weight.has_grad());
}

TEST_CASE("shared parameters and buffers of copies inside a model are listed once") {
  Pair pair;
  pair.right = pair.left;
  CHECK(pair.parameters().size() == 7);
  CHECK(names_of(pair.buffers()) == Names{"left.count", "left.average"});
}

TEST_CASE("train and eval reach every module below") {
  Pair pair;
  CHECK(pair.training());
  pair.eval();
  for (const auto& [name, module] : pair.modules()) CHECK_FALSE(module->training());
  CHECK_FALSE(pair.clone().left.drop.training());
  CHECK_FALSE(Pair(pair).training());
  pair.left.train();
  CHECK(pair.left.drop.training());
  CHECK_FALSE(pair.right.drop.training());
}

TEST_CASE("hooks run around forward, children within their parents") {
  Pair pair;
  pair.eval();
  Names calls;
  std::vector<HookHandle> handles;
  for (const auto& [path, module] : pair.modules()) {
    if (path != "" && path != "left" && path != "left.first") continue;
    const std::string name = path.empty() ? "root" : path;
    handles.push_back(module->before_forward.add([&calls, name, module = module](Module& m) {
      CHECK(&m == module);
      calls.push_back("before " + name);
    }));
    handles.push_back(
        module->after_forward.add([&calls, name](Module&, std::span<const Tensor> outputs) {
          REQUIRE(outputs.size() == 1);
          CHECK(outputs[0].shape() == Shape{2, 3});
          calls.push_back("after " + name);
        }));
  }
  pair(batch());
  CHECK(calls == Names{"before root", "before left", "before left.first", "after left.first",
                       "after left", "after root"});

  Pair copy = pair;  // hooks belong to the module that they were added to
  calls.clear();
  copy(batch());
  CHECK(calls.empty());
  handles.resize(2);
  pair(batch());
  CHECK(calls == Names{"before root", "after root"});
  handles.clear();
  pair(batch());
  CHECK(calls.size() == 2);
}

TEST_CASE("hooks may replace what goes in and what comes out, in copies too") {
  struct Watched {
    Linear layer{3, 2, {.bias = true}};
    HookHandle in = layer.on_input.add([](const Tensor& x) { return x * 2; });
    HookHandle product = layer.on_product.add([](const Tensor& y) { return y * 0; });
    HookHandle out = layer.on_output.add([](const Tensor& y) { return y + 1; });
    HookHandle later = layer.on_output.add([](const Tensor& y) { return y * 10; });
  } watched;
  Linear& layer = watched.layer;
  Tensor seen;
  const HookHandle handle =
      layer.after_forward.add([&](Module&, std::span<const Tensor> outputs) { seen = outputs[0]; });
  const Tensor x = ones({3});
  const std::vector<float> expected = ((*layer.bias + 1) * 10).to_vector<float>();
  CHECK(layer(x).to_vector<float>() == expected);
  CHECK(seen.to_vector<float>() == expected);
  CHECK(Linear(layer)(x).to_vector<float>() == expected);
  CHECK(layer.clone()(x).to_vector<float>() == expected);
  watched.product.remove();
  watched.out.remove();
  watched.later.remove();
  CHECK(layer(x).to_vector<float>() ==
        linear(x * 2, layer.weight, &*layer.bias).to_vector<float>());
  watched.in.remove();
  CHECK(layer(x).to_vector<float>() == linear(x, layer.weight, &*layer.bias).to_vector<float>());
}

struct Weighing : Module {
  CAPSTAN_MODULE(Weighing)
  Tensor forward(const Tensor& a, const Tensor& b, double weight) { return a + b * weight; }
};

TEST_CASE("every tensor that goes in is replaced, and nothing else") {
  Weighing weighing;
  const HookHandle handle = weighing.on_input.add([](const Tensor& x) { return x + 1; });
  CHECK(weighing(ones({}), zeros({}), 3).item<float>() == 5);
}

struct Count : Module {
  CAPSTAN_MODULE(Count)
  int64_t forward(const Tensor& x, int64_t times) { return x.numel() * times; }
};

TEST_CASE("forward may take and give anything") {
  Count count;
  size_t outputs = 1;
  const HookHandle handle =
      count.after_forward.add([&](Module&, std::span<const Tensor> out) { outputs = out.size(); });
  CHECK(count(ones({3}), 4) == 12);
  CHECK(outputs == 0);
  CHECK(count.parameters().empty());
  CHECK(count.parameter_count() == 0);
}

TEST_CASE("to() converts floating tensors, and integers stay what they count") {
  Pair pair;
  const auto before = pair.left.first.weight.to_vector<double>();
  pair.to(Dtype::float64);
  for (const auto& [name, parameter] : pair.parameters()) {
    CHECK(parameter.dtype() == Dtype::float64);
    CHECK(parameter.requires_grad());
  }
  CHECK(pair.left.first.weight.to_vector<double>() == before);
  CHECK(pair.left.count.dtype() == Dtype::int64);
  CHECK(pair.left.average.dtype() == Dtype::float64);
  CHECK(pair.left.average.policy == BufferPolicy::replicated);
  CHECK(pair(cast(batch(), Dtype::float64)).dtype() == Dtype::float64);
}

TEST_CASE("inside a DetectAnomaly, messages name the modules that run") {
  OuterLogs model;
  const Tensor negative = full({1}, -1), half = full({1}, 0.5);
  const DetectAnomaly watch;
  for (int i = 0; i < 2; ++i) {  // the second time as the first, though that threw
    CHECK_THROWS_WITH_AS(model(negative), Contains("in: 'OuterLogs' > 'inner' > 'logs.1'\n"),
                         GradientError);
  }
  CHECK_THROWS_WITH_AS(model(half), Contains("in: 'OuterLogs' > 'inner' > 'Log'\n"), GradientError);
  CHECK_THROWS_WITH_AS(log(negative), Contains("in: no Label"), GradientError);
}

TEST_CASE("to() moves to another device; on meta there are shapes only") {
  Pair pair;
  const auto before = pair.left.first.weight.to_vector<float>();
  pair.to(Device::cpu(1));
  CHECK(pair.left.first.weight.device() == Device::cpu(1));
  CHECK(pair.left.first.weight.to_vector<float>() == before);
  CHECK_THROWS_AS(pair(batch()), DeviceError);

  pair.to(Device::meta());
  CHECK(pair.parameter_count() == 71);
  const Tensor out = pair(empty({1000, 3}, {.device = Device::meta()}));
  CHECK(out.shape() == Shape{1000, 3});
  CHECK(out.requires_grad());
  CHECK_THROWS_AS(out.to_vector<float>(), DeviceError);
  backward(sum(out));
  CHECK(pair.left.first.weight.grad().shape() == Shape{3, 3});
  CHECK_THROWS_AS(pair.to(Device::cpu()), DeviceError);  // there are no numbers to bring back
}

}  // namespace
}  // namespace capstan::nn
