// Tests of the state dict.
#include "nn/state.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/safetensors.h"
#include "nn/linear.h"
#include "tests/testing/files.h"

namespace capstan::nn {
namespace {

using doctest::Contains;

struct Net : Module {
  Linear in{2, 3}, out{3, 2, {.bias = false}};
  Buffer seen{full({1}, 4, {.dtype = Dtype::int64}), BufferPolicy::replicated};
  Buffer scratch{zeros({5}), BufferPolicy::local};
  CAPSTAN_MODULE(Net, in, out, seen, scratch)
  Tensor forward(const Tensor& x) { return out(in(x)); }
};

std::map<std::string, Tensor> copied_state(Net& net) {
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : state_dict(net)) state[name] = dense_copy(tensor);
  return state;
}

std::vector<double> all_numbers(Net& net) {
  std::vector<double> numbers;
  for (const auto& [name, tensor] : state_dict(net)) {
    for (double x : tensor.to_vector<double>()) numbers.push_back(x);
  }
  return numbers;
}

TEST_CASE("the state is the parameters and the buffers that are not local, and no copy") {
  Net net;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_dict(net)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"in.weight", "in.bias", "out.weight", "seen"});
  CHECK(state_dict(net)[0].second.same(net.in.weight));
}

TEST_CASE("a state goes through a file into another model") {
  Net net, other;
  other.seen = Buffer(zeros({1}, {.dtype = Dtype::int64}), BufferPolicy::replicated);
  const Tensor kept = other.in.weight;
  CHECK(all_numbers(net) != all_numbers(other));
  const testing::TemporaryFolder folder;
  save_safetensors(folder.file("net.safetensors"), state_dict(net));
  load_state_dict(other, load_safetensors(folder.file("net.safetensors")).tensors);
  CHECK(all_numbers(net) == all_numbers(other));
  CHECK(other.in.weight.same(kept));  // in place: optimizers and hooks stay attached
  CHECK(other.in.weight.requires_grad());
}

TEST_CASE("a tied model saves and loads one parameter") {
  Net net, other;
  for (Net* each : {&net, &other}) {
    each->out.weight = Parameter(zeros({3, 2}));
    tie(each->in.weight, each->out.weight);
  }
  auto state = copied_state(net);
  CHECK_FALSE(state.contains("out.weight"));
  load_state_dict(other, state);
  CHECK(all_numbers(net) == all_numbers(other));
}

TEST_CASE("a state that does not fit changes nothing") {
  Net net, other;
  auto state = copied_state(other);
  const auto before = all_numbers(net);
  const auto check = [&]<class E>(E, const char* text) {
    CHECK_THROWS_WITH_AS(load_state_dict(net, state), Contains(text), E);
    CHECK(all_numbers(net) == before);
  };
  SUBCASE("missing") {
    state.erase("in.bias");
    state.erase("seen");
    check(ValueError(""), "missing in.bias seen; not in the model none");
  }
  SUBCASE("foreign") {
    state["module.in.weight"] = ones({1});
    check(ValueError(""), "missing none; not in the model module.in.weight");
  }
  SUBCASE("of another shape") {
    state["out.weight"] = ones({3, 2});
    check(ShapeError(""), "[load_state_dict] out.weight is [2, 3] in the model and [3, 2] in");
  }
  SUBCASE("of another dtype") {
    state["seen"] = ones({1});
    check(DtypeError(""), "seen is int64 in the model and float32 in the state");
  }
  SUBCASE("on meta") {
    state["out.weight"] = ones({2, 3}, {.device = Device::meta()});
    check(DeviceError(""), "out.weight has no elements: it is on meta");
  }
}

}  // namespace
}  // namespace capstan::nn
