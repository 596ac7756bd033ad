// Tests of clipping, by the global norm and of each element.
#include "optim/clip.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/node.h"
#include "core/error.h"
#include "optim/measures.h"

namespace capstan::optim {
namespace {

using doctest::Approx;
using doctest::Contains;

template <class T>
Tensor with_grad(const std::vector<T>& grad) {
  const Shape shape{static_cast<int64_t>(grad.size())};
  const Tensor p = require_grad(ones(shape, {.dtype = dtype_of<T>()}));
  accumulator(p).set_grad(from_vector(grad, shape));
  return p;
}

TEST_CASE("gradients are scaled to the limit, with a known answer") {
  const Tensor p = with_grad<double>({3, 4});
  CHECK(clip_grad_norm({{"p", p}}, 1) == 5);
  const auto clipped = p.grad().to_vector<double>();
  CHECK(std::abs(clipped[0] - 0.5999999) < 5e-8);
  CHECK(std::abs(clipped[1] - 0.7999998) < 5e-8);
}

TEST_CASE("parts of parameters have no norm of their own") {
  const Tensor part = with_grad<double>({3, 4});
  accumulator(part).part_of_whole = true;
  CHECK_THROWS_WITH_AS(clip_grad_norm({{"p", part}}, 1),
                       Contains("[grad_norm] 'p' is one rank's part of a parameter"), ValueError);
  CHECK(part.grad().to_vector<double>() == std::vector<double>{3, 4});
}

TEST_CASE("the norm is over all parameters, of any dtype, that have a gradient") {
  const Tensor a = with_grad<float>({2}), b = with_grad<double>({4, 4}),
               none = require_grad(ones({3}));
  const NamedTensors all = {{"a", a}, {"none", none}, {"b", b}};
  CHECK(grad_norm(all) == 6);
  CHECK(clip_grad_norm(all, 3) == 6);
  CHECK(a.grad().item<float>() == Approx(1));
  CHECK(b.grad().to_vector<double>()[1] == Approx(2));
  CHECK_FALSE(none.has_grad());
  CHECK(grad_norm(all) == Approx(3));
  CHECK(grad_norm({}) == 0);
}

TEST_CASE("gradients within the limit stay as they are, to the last bit") {
  const Tensor p = with_grad<float>({0.3f, 0.4f});
  CHECK(clip_grad_norm({{"p", p}}, 1) == Approx(0.5));
  CHECK(p.grad().to_vector<float>() == std::vector<float>{0.3f, 0.4f});
}

TEST_CASE("float32 gradients whose squares overflow are clipped all the same") {
  const Tensor p = with_grad<float>({3e30f, 4e30f});
  CHECK(clip_grad_norm({{"p", p}}, 1) == Approx(5e30));
  CHECK(p.grad().to_vector<float>()[0] == Approx(0.6));
}

TEST_CASE("a norm that is not finite names its parameter and changes nothing") {
  const Tensor good = with_grad<float>({3});
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    const Tensor worse = with_grad<float>({1, bad});
    CHECK_THROWS_WITH_AS(clip_grad_norm({{"good", good}, {"net.worse", worse}}, 1),
                         Contains("[clip_grad_norm] the gradient of 'net.worse' is not finite"),
                         ValueError);
  }
  CHECK(good.grad().item<float>() == 3);
}

TEST_CASE("finite gradients whose norm float64 cannot hold are refused, too") {
  const Tensor a = with_grad<double>({1.2e154}), b = with_grad<double>({1.2e154});
  CHECK_THROWS_WITH_AS(clip_grad_norm({{"a", a}, {"b", b}}, 1), Contains("beyond float64"),
                       ValueError);
}

TEST_CASE("a sum of squares is of floating point numbers on a CPU") {
  ExactSum sum;
  add_squares(empty({0}), sum);
  CHECK(sum.value() == 0);
  add_squares(from_vector<float>({3, 4}, {2}), sum);
  CHECK(sum.value() == 25);
  CHECK_THROWS_WITH_AS(add_squares(empty({1}, {.device = Device::meta()}), sum),
                       Contains("takes a tensor on a CPU, got one on meta"), DeviceError);
  CHECK_THROWS_WITH_AS(add_squares(ones({1}, {.dtype = Dtype::int64}), sum),
                       Contains("floating point"), DtypeError);
}

TEST_CASE("the limit must be above 0") {
  for (double limit : {0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_WITH_AS(clip_grad_norm({}, limit), Contains("the limit must be above 0"),
                         ValueError);
  }
}

TEST_CASE("every element is brought within the limit, those inside stay to the last bit") {
  const Tensor p = with_grad<float>({0.3f, -0.7f, 5, -6, 0.5f, -0.5f}),
               q = with_grad<double>({1e200}), none = require_grad(ones({3})),
               empty = with_grad<float>({});
  clip_grad_value({{"p", p}, {"none", none}, {"q", q}, {"empty", empty}}, 0.5);
  CHECK(p.grad().to_vector<float>() == std::vector<float>{0.3f, -0.5f, 0.5f, -0.5f, 0.5f, -0.5f});
  CHECK(q.grad().item<double>() == 0.5);
  CHECK_FALSE(none.has_grad());
}

TEST_CASE("clipping by value refuses what is not finite, and changes nothing then") {
  const Tensor good = with_grad<float>({3});
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const Tensor worse = with_grad<double>({1, bad});
    CHECK_THROWS_WITH_AS(clip_grad_value({{"good", good}, {"net.worse", worse}}, 1),
                         Contains("[clip_grad_value] the gradient of 'net.worse' is not finite"),
                         ValueError);
  }
  CHECK(good.grad().item<float>() == 3);
  for (const double limit : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(clip_grad_value({}, limit), Contains("the limit must be a number above 0"),
                         ValueError);
  }
}

}  // namespace
}  // namespace capstan::optim
