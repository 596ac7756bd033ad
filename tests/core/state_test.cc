// Tests of check_state() and copy_state(). That models, optimizers and averages use them is tested
// with each.
#include "core/state.h"

#include <doctest/doctest.h>

#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;

TEST_CASE("a state is copied by name into the tensors that are there") {
  const Tensor a = zeros({2}), b = zeros({}, {.dtype = Dtype::int64});
  const std::map<std::string, Tensor> state = {{"b", full({}, 7, {.dtype = Dtype::int64})},
                                               {"a", ones({2})}};
  copy_state("load", "model", {{"a", a}, {"b", b}}, state);
  CHECK(a.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(b.item<int64_t>() == 7);
  copy_state("load", "model", {}, {});
}

TEST_CASE("a state that does not fit is named, and nothing is changed") {
  const Tensor a = zeros({2}), b = zeros({3});
  const auto check = [&]<class E>(E, const std::map<std::string, Tensor>& state, const char* text) {
    const NamedTensors own = {{"a", a}, {"b", b}};
    CHECK_THROWS_WITH_AS(check_state("load", "model", own, state), Contains(text), E);
    CHECK_THROWS_WITH_AS(copy_state("load", "model", own, state), Contains(text), E);
    CHECK(a.to_vector<float>() == std::vector<float>{0, 0});
  };
  check(ValueError(""), {{"a", ones({2})}, {"c", ones({3})}},
        "[load] the state is of another model: missing b; not in the model c");
  check(ValueError(""), {}, "missing a b; not in the model none");
  check(ShapeError(""), {{"a", ones({2})}, {"b", ones({4})}},
        "[load] b is [3] in the model and [4] in the state");
  check(DtypeError(""), {{"a", ones({2})}, {"b", ones({3}, {.dtype = Dtype::float64})}},
        "[load] b is float32 in the model and float64 in the state");
  check(DeviceError(""), {{"a", ones({2})}, {"b", ones({3}, {.device = Device::meta()})}},
        "[load] b has no elements: it is on meta in the state");
}

TEST_CASE("a state on meta fits what is on meta itself") {
  const Tensor planned = zeros({2}, {.device = Device::meta()});
  CHECK_NOTHROW(copy_state("load", "model", {{"a", planned}}, {{"a", planned}}));
  CHECK_NOTHROW(copy_state("load", "model", {{"a", planned}}, {{"a", ones({2})}}));
}

}  // namespace
}  // namespace capstan
