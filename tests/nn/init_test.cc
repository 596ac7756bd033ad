// Tests of the schemes by which weights start: their distributions, and what they refuse.
#include "nn/init.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/matmul.h"
#include "autograd/node.h"
#include "autograd/reduce.h"
#include "autograd/statistics.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/error.h"
#include "tests/golden/golden.h"

namespace capstan::nn {
namespace {

double variance_of(const Tensor& x) { return var(x, {}, 0).item<double>(); }

TEST_CASE("schemes give the variances of their papers") {
  const Tensor weight = empty({60, 40, 3}, {.dtype = Dtype::float64});  // fan in 120, out 180
  Generator generator(1);
  const auto check = [&](double variance) {
    CHECK(variance_of(weight) == doctest::Approx(variance).epsilon(0.05));
    CHECK(std::abs(mean(weight).item<double>()) < 4 * std::sqrt(variance / 7200));
  };
  init::xavier_uniform(weight, 2, generator);
  check(4 * 2 / 300.0);
  CHECK(max(weight).item<double>() <= std::sqrt(3 * 8 / 300.0));
  init::xavier_normal(weight, 1, generator);
  check(2 / 300.0);
  CHECK(max(weight).item<double>() > std::sqrt(3 * 2 / 300.0));
  init::kaiming_uniform(weight, init::kReluGain, init::Fan::in, generator);
  check(2 / 120.0);
  init::kaiming_normal(weight, init::leaky_relu_gain(1), init::Fan::out, generator);
  check(1 / 180.0);
}

TEST_CASE("plain schemes fill any shape, and no tape sees it") {
  const Tensor x = require_grad(empty({20000}, {.dtype = Dtype::float64}));
  const auto numbers = [&] { return detach(x); };
  init::constant(x, -0.75);
  CHECK(x.to_vector<double>() == std::vector<double>(20000, -0.75));
  Generator generator(3);
  init::uniform(x, -1, 3, generator);
  CHECK(min(numbers()).item<double>() >= -1);
  CHECK(min(numbers()).item<double>() < -0.99);
  CHECK(max(numbers()).item<double>() < 3);
  CHECK(max(numbers()).item<double>() > 2.99);
  CHECK(mean(numbers()).item<double>() == doctest::Approx(1).epsilon(0.04));  // 4 errors: 0.033
  CHECK(variance_of(numbers()) == doctest::Approx(16 / 12.0).epsilon(0.03));
  init::normal(x, 2, 0.5, generator);
  CHECK(mean(numbers()).item<double>() == doctest::Approx(2).epsilon(0.01));
  CHECK(variance_of(numbers()) == doctest::Approx(0.25).epsilon(0.05));
  CHECK(max(numbers()).item<double>() > 3.5);  // three deviations
  init::normal(x, 2, 0, generator);
  CHECK(x.to_vector<double>() == std::vector<double>(20000, 2));
  CHECK_FALSE(x.has_grad());
  const Tensor none = empty({0, 3});
  CHECK_NOTHROW(init::uniform(none));
  CHECK_NOTHROW(init::normal(none));
  const Tensor half = empty({3}, {.dtype = Dtype::bfloat16});
  init::constant(half, 0.5);
  CHECK(half.to_vector<float>() == std::vector<float>{0.5f, 0.5f, 0.5f});
}

TEST_CASE("orthogonal rows or columns have the length of the gain") {
  for (const Shape& shape : {Shape{4, 7}, Shape{7, 4}, Shape{3, 2, 4}}) {
    const Tensor weight = require_grad(empty(shape, {.dtype = Dtype::float64}));
    init::orthogonal(weight, 3);
    const Tensor rows = detach(flatten(weight, 1));
    const bool wide = rows.size(0) < rows.size(1);
    const Tensor product =
        wide ? matmul(rows, transpose(rows, 0, 1)) : matmul(transpose(rows, 0, 1), rows);
    const Tensor expected = eye(product.size(0), {.dtype = Dtype::float64});
    scale_elements(expected, 9);
    CHECK(testing::distance(product, expected) < 1e-13);
  }
}

TEST_CASE("a truncated normal distribution stays inside, and is normal there") {
  const Tensor x = empty({20000}, {.dtype = Dtype::float64});
  Generator generator(2);
  init::truncated_normal(x, 1, 0.5, 0, 2, generator);
  CHECK(min(x).item<double>() >= 0);
  CHECK(max(x).item<double>() <= 2);
  CHECK(mean(x).item<double>() == doctest::Approx(1).epsilon(0.02));
  // At two deviations: 1 - 2 * 2 phi(2) / (2 Phi(2) - 1) = 0.774.
  CHECK(variance_of(x) == doctest::Approx(0.25 * 0.7737).epsilon(0.03));
}

TEST_CASE("equal generators give equal weights") {
  const auto first = [](uint64_t seed) {
    Generator generator(seed);
    const Tensor weight = empty({3, 3});
    init::kaiming_normal(weight, 1, init::Fan::in, generator);
    return weight.to_vector<float>();
  };
  CHECK(first(1) == first(1));
  CHECK(first(1) != first(2));
}

TEST_CASE("schemes refuse what they cannot start") {
  CHECK_THROWS_WITH_AS(init::xavier_uniform(empty({3})),
                       "[xavier_uniform] takes a weight [out, in, ...] with elements, got [3]",
                       ShapeError);
  CHECK_THROWS_AS(init::kaiming_normal(empty({3, 0})), ShapeError);
  CHECK_THROWS_AS(init::orthogonal(empty({3})), ShapeError);
  CHECK_THROWS_AS(init::xavier_normal(zeros({2, 2}, {.dtype = Dtype::int64})), DtypeError);
  CHECK_THROWS_AS(init::truncated_normal(zeros({2}, {.dtype = Dtype::int64})), DtypeError);
  CHECK_THROWS_WITH_AS(init::truncated_normal(empty({2}), 0, 1, 5, 6),
                       doctest::Contains("less than one number in a thousand"), ValueError);
  CHECK_THROWS_AS(init::truncated_normal(empty({2}), 0, 0), ValueError);
  const Tensor whole = zeros({2}, {.dtype = Dtype::int64});
  CHECK_THROWS_WITH_AS(init::constant(whole, 1), doctest::Contains("[constant] "), DtypeError);
  CHECK_THROWS_WITH_AS(init::uniform(whole), doctest::Contains("[uniform] "), DtypeError);
  CHECK_THROWS_WITH_AS(init::normal(whole), doctest::Contains("[normal] "), DtypeError);
  CHECK_THROWS_WITH_AS(init::uniform(empty({2}), 1, 1),
                       "[uniform] low must be below high and both finite, got 1 and 1", ValueError);
  CHECK_THROWS_AS(init::uniform(empty({2}), 0, INFINITY), ValueError);
  CHECK_THROWS_WITH_AS(init::normal(empty({2}), 0, -1),
                       "[normal] deviation must be at least 0 and both finite, got mean 0 and "
                       "deviation -1",
                       ValueError);
  CHECK_THROWS_AS(init::normal(empty({2}), NAN, 1), ValueError);
}

}  // namespace
}  // namespace capstan::nn
