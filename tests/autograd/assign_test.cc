// Tests of assign() off the tape, which writes into a tensor or a view of its parts; on the tape,
// see in_place_test.cc.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/in_place.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using Numbers = std::vector<double>;

TEST_CASE("a value is broadcast and converted into any view") {
  const Tensor x = zeros({2, 3});
  assign(select(x, 1, -1), from_vector<int64_t>({1, 2}, {2}));
  CHECK(x.to_vector<double>() == Numbers{0, 0, 1, 0, 0, 2});
  assign(slice(x, 1, 0, 2), scalar(7));
  CHECK(x.to_vector<double>() == Numbers{7, 7, 1, 7, 7, 2});
  assign(flip(select(x, 0, 0), {0}), from_vector<float>({4, 5, 6}, {3}));
  CHECK(x.to_vector<double>() == Numbers{6, 5, 4, 7, 7, 2});
  assign(diagonal(x), -1);
  CHECK(x.to_vector<double>() == Numbers{-1, 5, 4, 7, -1, 2});
  assign(transpose(x, 0, 1), from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK(x.to_vector<double>() == Numbers{1, 3, 5, 2, 4, 6});
  assign(slice(x, 1, 0, 0), 3);
  CHECK(x.to_vector<double>() == Numbers{1, 3, 5, 2, 4, 6});
  assign(slice(x, 1, 1, 3), slice(x, 1, 0, 2));  // over itself
  CHECK(x.to_vector<double>() == Numbers{1, 1, 3, 2, 2, 4});
  const Tensor planned = zeros({2}, {.device = Device::meta()});
  assign(planned, scalar(1, {.device = Device::meta()}));
}

TEST_CASE("what does not fit is refused") {
  CHECK_THROWS_WITH_AS(assign(zeros({2}), zeros({2, 2})),
                       "[assign] [2, 2] does not broadcast to the target's [2]", ShapeError);
  CHECK_THROWS_AS(assign(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(assign(expand(zeros({1}), {2}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(assign(zeros({2}), zeros({2}, {.device = Device::meta()})), DeviceError);
  CHECK_THROWS_AS(assign(zeros({2}, {.dtype = Dtype::uint8}), 0.5), ValueError);
}

TEST_CASE("a leaf is refused, and the tape notices what it saved") {
  const Tensor w = require_grad(ones({2})), x = ones({2});
  CHECK_THROWS_AS(assign(w, 2), GradientError);
  CHECK_THROWS_AS(assign(w, x), GradientError);
  no_grad([&] { assign(w, 3); });
  CHECK(w.to_vector<double>() == Numbers{3, 3});
  const Tensor y = sum(w * x);
  assign(select(x, 0, 0), 5);
  CHECK_THROWS_AS(backward(y), GradientError);
}

TEST_CASE("a write through any view is noticed by whatever saved any other view") {
  const Tensor base = ones({4, 4}, {.dtype = Dtype::float64});
  const Tensor off = ones({4, 4}, {.dtype = Dtype::float64});
  using View = std::function<Tensor(const Tensor&)>;
  const std::vector<View> views = {[](const Tensor& x) { return x; },
                                   [](const Tensor& x) { return transpose(x, 0, 1); },
                                   [](const Tensor& x) { return select(x, 0, 1); },
                                   [](const Tensor& x) { return slice(x, 1, 0, 4, 2); },
                                   [](const Tensor& x) { return reshape(x, {16}); },
                                   [](const Tensor& x) { return flip(x, {0}); },
                                   [](const Tensor& x) { return diagonal(x); },
                                   [](const Tensor& x) { return squeeze(unsqueeze(x, 0), 0); }};
  for (const View& saved : views) {
    for (const View& written : views) {
      const Tensor leaf = require_grad(detach(base));
      const Tensor y = sum(square(saved(leaf)));
      no_grad([&] { assign(written(off), 3); });  // other memory
      CHECK_NOTHROW(backward(y, {.retain_graph = true}));
      no_grad([&] { assign(written(base), 3); });
      CHECK_THROWS_AS(backward(y), GradientError);
    }
  }
}

}  // namespace
}  // namespace capstan
