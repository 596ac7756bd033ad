// Tests that gradcheck() tells right formulas from wrong ones.
#include "autograd/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Inputs = std::vector<Tensor>;

Tensor leaf(const std::vector<double>& values) {
  return require_grad(from_vector(values, {static_cast<int64_t>(values.size())}));
}

/// x^2 with a gradient made by `formula`.
auto square_with(const std::function<Tensor(const Tensor& grad, const Tensor& x)>& formula) {
  return [formula](const Inputs& in) {
    return record("mine", no_grad([&] { return in[0] * in[0]; }), inputs(in[0]),
                  [x = Saved(in[0]), formula](const Tensor& grad) {
                    return gradients(formula(grad, x.get()));
                  });
  };
}

TEST_CASE("a right gradient passes and leaves the inputs as they were") {
  const Tensor x = leaf({1, -2, 3});
  CHECK_NOTHROW(gradcheck(square_with([](auto& g, auto& x) { return g * x * 2; }), {x}));
  CHECK(x.to_vector<double>() == std::vector<double>{1, -2, 3});
}

TEST_CASE("a wrong gradient is named with both values") {
  const Tensor x = leaf({1, -2, 3});
  CHECK_THROWS_WITH_AS(gradcheck(square_with([](auto& g, auto& x) { return g * x; }), {x}),
                       Contains("[gradcheck] input 0 element 0: the tape says"), GradientError);
  // Right values at the wrong elements.
  const auto reversed = [](const Tensor& g, const Tensor& x) {
    const Tensor right = g * x * 2, out = empty_like(right);
    for (int i = 0; i < 3; ++i) {
      copy_elements(view_of(right, right.layout().selected(0, i)),
                    view_of(out, out.layout().selected(0, 2 - i)));
    }
    return out;
  };
  CHECK_THROWS_AS(gradcheck(square_with(reversed), {x}), GradientError);
  CHECK_THROWS_AS(gradcheck(square_with([](auto& g, auto&) { return g * std::nan(""); }), {x}),
                  GradientError);
}

TEST_CASE("a gradient that does not come is a wrong one, unless it is 0") {
  const Tensor x = leaf({2}), y = leaf({3});
  CHECK_THROWS_AS(gradcheck([](const Inputs& in) { return in[0] * detach(in[1]); }, {x, y}),
                  GradientError);
  CHECK_NOTHROW(gradcheck([](const Inputs& in) { return in[0] * 2; }, {x, y}));
}

TEST_CASE("inputs are float64 and dense, or constants") {
  const auto twice = [](const Inputs& in) { return in[0] * 2; };
  CHECK_THROWS_WITH_AS(gradcheck(twice, {require_grad(ones({2}))}),
                       Contains("input 0 must be dense float64, got float32 [2]"), GradientError);
  const Tensor gaps = require_grad(detach(slice(leaf({1, 2, 3}), 0, 0, 3, 2)));
  CHECK_THROWS_AS(gradcheck(twice, {gaps}), GradientError);
  const auto product = [](const Inputs& in) { return in[0] * in[1]; };
  CHECK_NOTHROW(gradcheck(product, {leaf({1, 2}), ones({2})}));
}

}  // namespace
}  // namespace capstan
