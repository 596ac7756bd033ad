// Decompositions and equations: the parts put together again, and matrices that have none.
#include <cmath>

#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

const Shape kShapes[] = {{1, 1, 1}, {3, 4, 4}, {2, 5, 3}, {2, 3, 6}, {1, 30, 30}};

Tensor like(const Tensor& a, const Shape& shape) { return empty(shape, {.dtype = a.dtype()}); }

Tensor transposed(const Tensor& a) { return view_of(a, a.layout().transposed(1, 2)); }

Tensor times(const Tensor& a, const Tensor& b) {
  const Tensor out = like(a, {a.size(0), a.size(1), b.size(2)});
  cpu().matmul(a, b, out);
  return out;
}

/// a with column j of each matrix multiplied by factors[..., j].
Tensor scaled(const Tensor& a, const Tensor& factors) {
  const Tensor out = empty_like(a);
  cpu().binary(Binary::multiply, a,
               view_of(factors, factors.layout().unsqueezed(1).expanded(a.shape())), out);
  return out;
}

/// a a^T + 1, symmetric positive definite.
Tensor definite(const Tensor& a) {
  const Tensor out = times(a, transposed(a));
  const Tensor diagonal = view_of(out, out.layout().diagonal(1, 2));
  const Tensor one = ones(diagonal.shape(), {.dtype = a.dtype()});
  cpu().binary(Binary::add, diagonal, one, diagonal);
  return out;
}

void check_equal(const Tensor& got, const Tensor& expected) {
  CHECK(error_of(got, expected.to_vector<double>()) < 200 * tolerance(got.dtype()));
}

/// Columns that have length 1 and stand upright on each other.
void check_orthonormal(const Tensor& q) {
  const Tensor product = times(transposed(q), q);
  const auto values = product.to_vector<double>();
  const int64_t n = q.size(2);
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = i / n % n == i % n;
    CHECK(std::abs(values[i] - expected) < 100 * tolerance(q.dtype()));
  }
}

}  // namespace

TEST_CASE("the parts of a matrix make it again") {
  for (const Dtype dtype : kFloating) {
    for (const Shape& shape : kShapes) {
      const int64_t batch = shape[0], m = shape[1], n = shape[2], k = std::min(m, n);
      const Tensor a = some_values(shape, dtype);
      const Tensor q = like(a, {batch, m, k}), r = like(a, {batch, k, n});
      cpu().qr(a, q, r);
      check_equal(times(q, r), a);
      check_orthonormal(q);
      const auto upper = r.to_vector<double>();
      for (size_t i = 0; i < upper.size(); ++i) {
        const int64_t row = i / n % k, column = i % n;
        if (column < row) CHECK(upper[i] == 0);
        if (column == row) CHECK(upper[i] >= 0);
      }

      const Tensor u = like(a, {batch, m, k}), s = like(a, {batch, k}), v = like(a, {batch, n, k});
      cpu().svd(a, u, s, v);
      check_equal(times(scaled(u, s), transposed(v)), a);
      check_orthonormal(u);
      check_orthonormal(v);
      const auto falling = s.to_vector<double>();
      for (size_t i = 0; i < falling.size(); ++i) {
        CHECK(falling[i] >= 0);
        if (i % k > 0) CHECK(falling[i] <= falling[i - 1]);
      }

      const Tensor square = definite(a), lower = empty_like(square), vectors = empty_like(square);
      CHECK(cpu().cholesky(square, lower) == -1);
      check_equal(times(lower, transposed(lower)), square);
      const Tensor values = like(a, {batch, m});
      CHECK(cpu().eigh(square, values, vectors) == -1);
      check_equal(times(scaled(vectors, values), transposed(vectors)), square);
      check_orthonormal(vectors);

      const Tensor x = some_values({batch, m, 2}, dtype, 5), found = empty_like(x);
      CHECK(cpu().solve(square, times(square, x), found) == -1);
      CHECK(error_of(found, x.to_vector<double>()) < 5000 * tolerance(dtype));
    }
  }
}

TEST_CASE("matrices that have no answer are named, and NaN crashes nothing") {
  const Tensor a = from_vector<double>({1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, {3, 2, 2});
  const Tensor out = empty_like(a);
  CHECK(cpu().cholesky(a, out) == 1);
  CHECK(cpu().solve(a, a, out) == 1);
  const Tensor bad = full({2, 3, 3}, NAN, {.dtype = Dtype::float64});
  const Tensor first = empty_like(bad), second = empty_like(bad), values = like(bad, {2, 3});
  const auto all_nan = [](const Tensor& x) {
    for (const double value : x.to_vector<double>()) CHECK(std::isnan(value));
  };
  cpu().cholesky(bad, first);
  cpu().solve(bad, bad, first);
  all_nan(first);
  cpu().qr(bad, first, second);
  all_nan(first);
  cpu().svd(bad, first, values, second);
  all_nan(values);
  cpu().eigh(bad, values, first);
}

TEST_CASE("a batch gives the same bits on any number of threads") {
  const Tensor a = definite(some_values({20, 6, 6}));
  check_threads([&] {
    const Tensor lower = empty_like(a);
    cpu().cholesky(a, lower);
    return lower;
  });
  check_threads([&] {
    const Tensor values = like(a, {20, 6}), vectors = empty_like(a);
    cpu().eigh(a, values, vectors);
    return vectors;
  });
}
