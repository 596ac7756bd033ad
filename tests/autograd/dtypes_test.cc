// Tests of the dtypes that operations give, and of gradients across a change of dtype.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/indexing.h"
#include "autograd/losses.h"
#include "autograd/normalization.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/sort.h"
#include "autograd/statistics.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

Tensor of(Dtype dtype, double value = 1) { return full({2}, value, {.dtype = dtype}); }

TEST_CASE("two tensors meet in the stronger dtype") {
  CHECK(add(of(Dtype::int32), of(Dtype::int64)).dtype() == Dtype::int64);
  CHECK(add(of(Dtype::int64), of(Dtype::float32)).dtype() == Dtype::float32);
  CHECK(add(of(Dtype::float32), of(Dtype::float64)).dtype() == Dtype::float64);
  CHECK(multiply(of(Dtype::boolean), of(Dtype::uint8)).dtype() == Dtype::uint8);
  CHECK(where(of(Dtype::boolean), of(Dtype::int32), of(Dtype::float32)).dtype() == Dtype::float32);
  CHECK(less(of(Dtype::int32), of(Dtype::float64)).dtype() == Dtype::boolean);
}

TEST_CASE("a number takes the tensor's dtype, unless it is a fraction beside an integer") {
  const Tensor whole = of(Dtype::int64, 7), single = of(Dtype::float32, 7);
  CHECK((whole + 2).dtype() == Dtype::int64);
  CHECK((whole * 0.5).dtype() == Dtype::float32);
  CHECK((whole * 0.5).to_vector<double>() == std::vector<double>{3.5, 3.5});
  CHECK((single + 0.1).dtype() == Dtype::float32);
  CHECK((1 - of(Dtype::float64, 3)).to_vector<double>() == std::vector<double>{-2, -2});
  CHECK((14 / single).to_vector<double>() == std::vector<double>{2, 2});
  CHECK((2 * whole - 1 + 3).to_vector<int64_t>() == std::vector<int64_t>{16, 16});
  CHECK((-whole).dtype() == Dtype::int64);
  CHECK_THROWS_AS(of(Dtype::uint8) + 300, ValueError);
}

TEST_CASE("a tensor is compared with a number, on its own device") {
  const Tensor x = from_vector<int64_t>({-1, 2, 5}, {3});
  using Bools = std::vector<bool>;
  CHECK(equal(x, 2).to_vector<bool>() == Bools{false, true, false});
  CHECK(not_equal(x, 2).to_vector<bool>() == Bools{true, false, true});
  CHECK(less(x, 2.5).to_vector<bool>() == Bools{true, true, false});  // not cut to 2
  CHECK(less_equal(x, -1).to_vector<bool>() == Bools{true, false, false});
  CHECK(greater(x, 2).to_vector<bool>() == Bools{false, false, true});
  CHECK(greater_equal(x, 2).to_vector<bool>() == Bools{false, true, true});
  CHECK(maximum(x, 2).to_vector<int64_t>() == std::vector<int64_t>{2, 2, 5});
  CHECK(minimum(x, 2).to_vector<int64_t>() == std::vector<int64_t>{-1, 2, 2});
  CHECK(floor_divide(x, 2).to_vector<int64_t>() == std::vector<int64_t>{-1, 1, 2});
  CHECK(remainder(x, 2).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
  const Tensor planned = empty({3}, {Dtype::bfloat16, Device::meta()});
  CHECK(greater(planned, 0.1).device() == Device::meta());
  CHECK(maximum(planned, 0.1).dtype() == Dtype::bfloat16);
}

TEST_CASE("division is true, sums of integers are wide, casts cut towards zero") {
  const Tensor half = of(Dtype::int32, 3) / of(Dtype::int64, 2);
  CHECK(half.dtype() == Dtype::float32);
  CHECK(half.to_vector<float>() == std::vector<float>{1.5, 1.5});
  const Tensor bytes = full({300}, 255, {.dtype = Dtype::uint8});
  CHECK(sum(bytes).dtype() == Dtype::int64);
  CHECK(sum(bytes).item<int64_t>() == 300 * 255);
  CHECK(sum(ones({5}, {.dtype = Dtype::boolean})).item<int64_t>() == 5);
  CHECK(max(of(Dtype::int32, 4)).item<int32_t>() == 4);
  CHECK(cast(scalar(-1.9), Dtype::int32).item<int32_t>() == -1);
  CHECK(cast(scalar(0.5), Dtype::boolean).item<bool>());
}

TEST_CASE("the operations that take every dtype keep it") {
  using Numbers = std::vector<double>;
  for (const Dtype dtype : {Dtype::int64, Dtype::int32, Dtype::uint8}) {
    CAPTURE(to_string(dtype));
    const Tensor x = cast(from_vector<float>({3, 1, 2, 1}, {4}), dtype);
    const auto check = [&](const Tensor& got, const Numbers& expected) {
      CHECK(got.dtype() == dtype);
      CHECK(got.to_vector<double>() == expected);
    };
    check(clamp(x, 1, 2), {2, 1, 2, 1});
    check(sign(x), {1, 1, 1, 1});
    check(floor(x), {3, 1, 2, 1});
    check(relu(x), {3, 1, 2, 1});
    check(remainder(x, scalar_beside(x, 2)), {1, 1, 0, 1});
    check(floor_divide(x, scalar_beside(x, 2)), {1, 0, 1, 0});
    check(tril(reshape(x, {2, 2})), {3, 0, 2, 1});
    check(pad(x, {1}, {0}, 7), {7, 3, 1, 2, 1});
    check(roll(x, 1, 0), {1, 3, 1, 2});
    check(flip(x, {0}), {1, 2, 1, 3});
    check(sort(x).values, {1, 1, 2, 3});
    check(topk(x, 2).values, {3, 2});
    check(unique(x).values, {1, 2, 3});
    check(masked_fill(x, equal(x, scalar_beside(x, 1)), 9), {3, 9, 2, 9});
    check(masked_select(x, equal(x, scalar_beside(x, 1))), {1, 1});
    const Tensor at = from_vector<int64_t>({0, 0}, {2});
    check(gather(x, 0, at), {3, 3});
    check(scatter_add(x, 0, at, slice(x, 0, 0, 2)), {7, 1, 2, 1});
    check(index_add(x, 0, at, slice(x, 0, 0, 2)), {7, 1, 2, 1});
    CHECK(cumsum(x, 0).dtype() == Dtype::int64);
    CHECK(cumsum(x, 0).to_vector<double>() == Numbers{3, 4, 6, 7});
    CHECK(prod(x).dtype() == Dtype::int64);
    CHECK(prod(x).item<int64_t>() == 6);
    CHECK(argmin(x, 0).item<int64_t>() == 1);
    CHECK_FALSE(any(isnan(x)).item<bool>());
    CHECK_FALSE(any(isinf(x)).item<bool>());
    CHECK(all(isfinite(x)).item<bool>());
  }
}

TEST_CASE("what is summed inside an operation may leave the range of 16 bits, and its digits") {
  const int64_t n = 100'000;  // float16 ends at 65504
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    const auto check = [&](const Tensor& got, double expected) {
      CHECK(got.dtype() == dtype);
      CHECK(got.item<double>() == doctest::Approx(expected).epsilon(0x1p-8));
    };
    const Tensor zero = zeros({n}, {.dtype = dtype}), one = ones({n}, {.dtype = dtype});
    const Tensor far = full({1000}, 300, {.dtype = dtype});  // its squares
    check(mean(one), 1);
    check(max(mean(expand(one, {3, n}), {1})), 1);
    check(var(cat({one, -one})), 1);
    check(stddev(cat({far, -far})), 300);
    check(norm(one), std::sqrt(n));
    check(norm(far), 300 * std::sqrt(1000));
    check(norm(far, 3), 300 * std::cbrt(1000));
    check(logsumexp(zero), std::log(n));
    check(mse_loss(one, zero), 1);
    check(l1_loss(one, zero), 1);
    check(smooth_l1_loss(one, zero, 0.5), 0.75);
    check(huber_loss(one, zero, 0.5), 0.375);
    check(binary_cross_entropy(one * 0.25, one), std::log(4));
    check(binary_cross_entropy_with_logits(zero, one), std::log(2));
    check(binary_cross_entropy_with_logits(zero, one, LossReduction::mean, &one), std::log(2));
    const Tensor rows = zeros({n, 2}, {.dtype = dtype});
    check(kl_div(rows - 2, rows + 0.5), 2 + std::log(0.5));
    const Tensor targets = zeros({n}, {.dtype = Dtype::int64});
    check(cross_entropy(rows, targets), std::log(2));
    check(cross_entropy(rows, targets, {.label_smoothing = 0.5}), std::log(2));
    check(nll_loss(rows - 2, targets, {.weights = ones({2}, {.dtype = dtype})}), 2);
    check(sum(weight_norm(far, ones({}, {.dtype = dtype}))), std::sqrt(1000));

    const Tensor x = require_grad(dense_copy(one));
    backward(norm(x) + mse_loss(x, zero) * 1000);
    check(max(x.grad()), 1 / std::sqrt(n) + 2000.0 / n);
    check(min(x.grad()), 1 / std::sqrt(n) + 2000.0 / n);
  }
}

TEST_CASE("masks stay bool") {
  const Tensor causal = tril(ones({2, 2}, {.dtype = Dtype::boolean}));
  CHECK(causal.dtype() == Dtype::boolean);
  CHECK(causal.to_vector<bool>() == std::vector<bool>{true, false, true, true});
  CHECK(logical_not(causal).to_vector<bool>() == std::vector<bool>{false, true, false, false});
  CHECK(masked_fill(causal, causal, 0).to_vector<bool>() == std::vector<bool>(4));
  CHECK(logical_and(of(Dtype::int32), of(Dtype::float32)).dtype() == Dtype::boolean);
  CHECK(nonzero(causal).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 1, 0, 1, 1});
  CHECK(cumsum(causal, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1, 2});
}

TEST_CASE("a gradient has its leaf's dtype, however the leaf was promoted") {
  const Tensor single = require_grad(of(Dtype::float32, 2)),
               wide = require_grad(of(Dtype::float64, 3));
  backward(sum(single * wide + maximum(single, wide) + where(less(single, wide), single, wide) +
               single / wide + slice(cat({single, wide}), 0, 1, 3) + cast(single, Dtype::float64)));
  CHECK(single.grad().dtype() == Dtype::float32);
  CHECK(wide.grad().dtype() == Dtype::float64);
  CHECK(single.grad().to_vector<double>()[0] == doctest::Approx(3 + 1 + 1 / 3.0 + 1));
  CHECK(wide.grad().to_vector<double>()[0] == doctest::Approx(2 + 1 - 2 / 9.0 + 1));
}

TEST_CASE("an integer beside a leaf takes no gradient") {
  const Tensor x = require_grad(of(Dtype::float32, 2));
  const Tensor y = x * of(Dtype::int64, 3) + maximum(of(Dtype::uint8, 1), x);
  CHECK(y.dtype() == Dtype::float32);
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{4, 4});
}

}  // namespace
}  // namespace capstan
