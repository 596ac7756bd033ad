// Matrix products against three nested loops in float64.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

/// A matrix [rows, columns]: dense by rows, dense by columns, and a part of a wider one of each.
std::vector<Tensor> matrices(int64_t rows, int64_t columns, Dtype dtype, uint32_t seed) {
  std::vector<Tensor> out;
  for (const int64_t gap : {0, 3}) {
    const Tensor by_rows = some_values({rows, columns + gap}, dtype, seed);
    out.push_back(view_of(by_rows, by_rows.layout().sliced(1, 0, columns)));
    const Tensor by_columns = some_values({columns, rows + gap}, dtype, seed + 1);
    out.push_back(
        view_of(by_columns, by_columns.layout().sliced(1, gap, rows + gap).transposed(0, 1)));
  }
  return out;
}

Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor out = full({a.size(0), b.size(1)}, NAN, {.dtype = a.dtype()});
  cpu().matmul(a, b, out);
  return out;
}

}  // namespace

TEST_CASE("products match float64 for all orders of the operands and odd sizes") {
  struct Size {
    int64_t m, k, n;
  };
  for (const auto [m, k, n] : {Size{1, 1, 1}, Size{1, 7, 5}, Size{5, 7, 1}, Size{7, 1, 9},
                               Size{33, 65, 17}, Size{130, 31, 67}, Size{3, 300, 129}}) {
    for (const Dtype dtype : kFloating) {
      for (const Tensor& a : matrices(m, k, dtype, 1)) {
        for (const Tensor& b : matrices(k, n, dtype, 5)) {
          const auto x = a.to_vector<double>(), y = b.to_vector<double>();
          std::vector<double> expected(m * n);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              for (int64_t l = 0; l < k; ++l) expected[i * n + j] += x[i * k + l] * y[l * n + j];
            }
          }
          CHECK(error_of(product(a, b), expected) < 30 * tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("empty products") {
  CHECK(product(empty({0, 3}), empty({3, 2})).numel() == 0);
  CHECK(product(empty({2, 3}), empty({3, 0})).numel() == 0);
  CHECK(product(empty({2, 0}), empty({0, 3})).to_vector<double>() == std::vector<double>(6, 0));
}

TEST_CASE("NaN reaches its row only") {
  const Tensor a = ones({3, 2});
  fill_elements(view_of(a, a.layout().selected(0, 1).sliced(0, 0, 1)), NAN);
  const auto c = product(a, ones({2, 2})).to_vector<double>();
  CHECK(c[0] == 2);
  CHECK(std::isnan(c[2]));
  CHECK(std::isnan(c[3]));
  CHECK(c[5] == 2);
}

TEST_CASE("products are the same on any number of threads") {
  struct Size {
    int64_t m, k, n;
  };
  // All large enough to be cut, with remainders of every kind.
  for (const auto [m, k, n] :
       {Size{611, 203, 307}, Size{96, 700, 151}, Size{97, 263, 900}, Size{5000, 9, 101},
        Size{4099, 1200, 1}, Size{1023, 2049, 3}, Size{145, 1537, 63}, Size{100000, 64, 1}}) {
    for (const Dtype dtype : kFloating) {
      for (const Tensor& a : matrices(m, k, dtype, 1)) {
        for (const Tensor& b : matrices(k, n, dtype, 5)) {
          CAPTURE(to_string(Shape{m, k, n}));
          check_threads([&] { return product(a, b); });
        }
      }
    }
  }
}

TEST_CASE("a batch holds the same products as one by one, with any stride between them") {
  for (const Dtype dtype : kFloating) {
    for (const int64_t batch : {0, 1, 3, 40}) {
      const Tensor a = some_values({batch, 5, 7}, dtype), b = some_values({batch, 7, 3}, dtype, 2);
      const Tensor turned = some_values({batch, 3, 7}, dtype, 3),
                   one = some_values({1, 7, 3}, dtype);
      for (const Tensor& right : {b, view_of(turned, turned.layout().transposed(1, 2)),
                                  view_of(one, one.layout().expanded({batch, 7, 3}))}) {
        const Tensor out = full({batch, 5, 3}, NAN, {.dtype = dtype});
        cpu().matmul(a, right, out);
        for (int64_t i = 0; i < batch; ++i) {
          const auto at = [i](const Tensor& x) { return view_of(x, x.layout().selected(0, i)); };
          CHECK(same_bits(dense_copy(at(out)), product(at(a), at(right))));
        }
      }
    }
  }
  for (const int64_t batch : {2, 70}) {
    const Tensor a = some_values({batch, 200, 150}),
                 b = some_values({batch, 150, 90}, Dtype::float32, 2);
    check_threads([&] {
      const Tensor out = empty({batch, 200, 90});
      cpu().matmul(a, b, out);
      return out;
    });
  }
}
